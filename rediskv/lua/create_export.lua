-- Stores a job that exports rows, and fixes how far it goes: nothing that is
-- committed later is in it. The rows are found in a log or in indexes.
-- KEYS: grant, export, sequences, events, audit, dispatch, webhooks, exports, unfinished,
--   sizes, files, record, all_exports, log
-- ARGV: grant_version, event_head, event_tail, event_id, event_type, event_account, audit_head, audit_tail,
--   operation, fingerprint, record_lifetime, record_text, organization, export_id,
--   most_unfinished, most_bytes, now_ms, first_position, last_position, oldest_id, field_count
-- KEYS goes on with the indexes in which the rows are. Without last_position they
-- are in the log; without a log, that key is the sequences'. oldest_id is one
-- before those that are still listed.
-- ARGV goes on with field_count values: the export's fields.
-- Returns: {'created'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'many'} | {'full'}
if redis.call('EXISTS', export) == 1 then return {'done'} end
local instead = answered(grant, grant_version, record, operation, fingerprint)
if instead then return instead end
if redis.call('SCARD', unfinished) >= tonumber(most_unfinished) then return {'many'} end
if taken(sizes, files, now_ms) >= tonumber(most_bytes) then return {'full'} end
local cut, total = last_position, 0
if cut == '' then
  local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', '1')[1]
  cut, total = last and last[1] or '0-0', redis.call('XLEN', log)
else
  local now = tonumber(redis.call('HGET', sequences, 'event') or '0') * 16 + 15
  if now < tonumber(cut) then cut = whole(now) end
  for i = named_keys + 1, #KEYS do total = total + redis.call('ZCOUNT', KEYS[i], first_position, cut) end
end

if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
local entry = redis.call('XADD', exports, '*', 'o', organization, 'e', export_id)
redis.call('HSET', export, 'st', 'pending', 'cut', cut, 'total', whole(total), 'entry', entry, 'n', '0', 'tries', '0',
  values(named_args + 1, field_count))
redis.call('SADD', unfinished, export_id)
redis.call('ZADD', all_exports, '0', export_id)
redis.call('ZREMRANGEBYLEX', all_exports, '-', '(' .. oldest_id)
append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account)
append_audit(sequences, audit, audit_head, audit_tail)
return {'created'}
