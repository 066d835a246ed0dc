-- Creates, changes or removes a webhook endpoint, with event and audit entry.
-- KEYS: grant, record, endpoint, webhooks, sequences, events, audit, dispatch, ready, queue,
--   jobs, mark
-- ARGV: operation, grant_version, fingerprint, record_lifetime, record_text, expected_revision,
--   endpoint_id, directory_entry, now_ms, ready_member, job, most_endpoints, event_head,
--   event_tail, event_id, event_type, event_account, audit_head, audit_tail, status, url, field_count
-- Without expected_revision the endpoint is new; without directory_entry it is
-- removed; without job or event_type there is none.
-- ARGV goes on with field_count values: the endpoint's fields.
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'missing'} | {'conflict'} | {'full'}
local instead = answered(grant, grant_version, record, operation, fingerprint, mark)
if instead then return instead end
local now = redis.call('HMGET', endpoint, 'v', 'st', 'url')
if expected_revision ~= '' and not now[1] then return {'missing'} end
if (now[1] or '') ~= expected_revision then return {'conflict'} end
if expected_revision == '' and redis.call('HLEN', webhooks) > tonumber(most_endpoints) then return {'full'} end

mark_done(mark, '')
if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
redis.call('HINCRBY', webhooks, 'v', 1)
if directory_entry == '' then
  redis.call('HDEL', webhooks, endpoint_id)
  redis.call('DEL', endpoint)
  redis.call('ZREM', ready, ready_member)
else
  redis.call('HSET', webhooks, endpoint_id, directory_entry)
  redis.call('HSET', endpoint, 'st', status, values(named_args + 1, field_count))
  if status ~= 'active' then
    redis.call('ZREM', ready, ready_member)
  else
    if now[2] ~= 'active' or now[3] ~= url then -- its health begins anew
      redis.call('HSET', endpoint, 'fail', '0', 'ok', now_ms)
      redis.call('HDEL', endpoint, 'pause')
    end
    if redis.call('EXISTS', queue) == 1 then wake(ready, ready_member, now_ms) end
  end
end
if job ~= '' then redis.call('ZADD', jobs, now_ms, job) end
if event_type ~= '' then
  append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account)
end
append_audit(sequences, audit, audit_head, audit_tail)
return {'written'}
