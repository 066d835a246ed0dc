-- Queues a test delivery, which is of no event: its body is its own, and it is
-- not among the endpoint's deliveries. While the endpoint is disabled it is held,
-- for a replay, until its lifetime is over.
-- KEYS: grant, record, endpoint, queue, open, ready, sequences, audit, delivery
-- ARGV: operation, grant_version, fingerprint, record_lifetime, record_text, now_ms,
--   ready_member, delivery_id, audit_head, audit_tail, open_score, held_lifetime, field_count
-- ARGV goes on with field_count values: the delivery's fields.
-- Returns: {'queued'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'missing'}
if redis.call('EXISTS', delivery) == 1 then return {'done'} end
local instead = answered(grant, grant_version, record, operation, fingerprint)
if instead then return instead end
local status = redis.call('HGET', endpoint, 'st')
if not status then return {'missing'} end

if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
local state = status == 'active' and 'pending' or 'held'
redis.call('HSET', delivery, 'st', state, values(named_args + 1, field_count))
if state == 'held' then
  redis.call('PEXPIRE', delivery, held_lifetime)
else
  redis.call('ZADD', open, open_score, delivery_id)
  redis.call('ZADD', queue, now_ms, delivery_id)
  wake(ready, ready_member, now_ms)
end
append_audit(sequences, audit, audit_head, audit_tail)
return {'queued'}
