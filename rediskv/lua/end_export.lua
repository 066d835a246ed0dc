-- Ends an export: its owner when it has succeeded or failed, a client when it
-- is canceled, or when the file of one that has succeeded is dropped. Its entry
-- is removed, so that nobody takes it up again. What its file takes up counts
-- until the file is gone.
-- KEYS: grant, export, sequences, events, audit, dispatch, webhooks, exports, unfinished,
--   sizes, files, mark
-- ARGV: grant_version, event_head, event_tail, event_id, event_type, event_account, audit_head, audit_tail,
--   owner, known_chunks, status, job_lifetime, group, export_id, file_gone_at, field_count
-- Without event_type there is no event, without owner a client asks.
-- ARGV goes on with field_count values: the export's fields.
-- Returns: {'ended', number of chunks} | {'done', number of chunks} |
--   {'grant'} | {'missing'} | {'conflict'} | {'lost'}
local chunks = earlier(mark)
if chunks then return {'done', chunks} end
if not granted(grant, grant_version) then return {'grant'} end
local now = redis.call('HMGET', export, 'st', 'own', 'n', 'entry')
if not now[1] then return {'missing'} end
if owner ~= '' and (now[1] ~= 'running' or now[2] ~= owner or now[3] ~= known_chunks) then return {'lost'} end
local dropped = status == 'expired'
if dropped and now[1] ~= 'succeeded' then return {'conflict'} end
if not dropped and now[1] ~= 'pending' and now[1] ~= 'running' then return {'conflict'} end

mark_done(mark, now[3])
redis.call('HSET', export, 'st', status, values(named_args + 1, field_count))
if status ~= 'succeeded' then redis.call('HDEL', export, 'prev') end
redis.call('PEXPIRE', export, job_lifetime)
redis.call('SREM', unfinished, export_id)
if not dropped and redis.call('HEXISTS', sizes, export_id) == 1 then redis.call('ZADD', files, file_gone_at, export_id) end
redis.pcall('XACK', exports, group, now[4])
redis.call('XDEL', exports, now[4])
if event_type ~= '' then
  append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account)
end
append_audit(sequences, audit, audit_head, audit_tail)
return {'ended', now[3]}
