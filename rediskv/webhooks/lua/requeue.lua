-- Queues deliveries again: for a replay, or as the next batch of a recovery. A
-- replay sends one delivery now, unless it is being sent; it ends the pause of
-- its endpoint, because whoever asks for it knows that the receiver is back. A
-- recovery takes what was held or given up. The place that it has come to is
-- compared and moved along, so that each batch counts once, whichever worker is
-- faster; there is a conflict for the others, and while the one delivery is being
-- sent.
-- KEYS: grant, rate, record, endpoint, queue, open, ready, sequences, events, audit, dispatch,
--   webhooks, job, jobs, mark
-- ARGV: operation, grant_version, rate_limit, fingerprint, record_lifetime, record_text, now_ms,
--   ready_member, trigger, replay_id, event_head, event_tail, event_id, event_type, event_account, event_envelope, audit_head,
--   audit_tail, audit_envelope, new_job, place, field_count
-- trigger is replay or recovery. Without event_type there is no event, without
-- audit_head no entry, without new_job no job; place is what the recovery has come
-- to (or empty).
-- ARGV goes on with field_count values: the fields of the job. Then for each
-- delivery: KEYS its hash, its attempts; ARGV id, time (ms), number, time (ms) and status code
-- of its last attempt. One that has succeeded may have left these to the attempt; they stand in
-- it again, while others follow.
-- Returns: {'queued', count} | {'done'} | {'repeated', record} | {'reused', record} |
--   {'outdated', record} | {'damaged', key} | {'grant'} | {'limited'} | {'missing'} | {'conflict'}
-- The last of what is queued, done or repeated is the revision (revised).
local instead = answered(grant, grant_version, rate, rate_limit, record, operation, fingerprint, mark)
if instead then return revised(sequences, instead) end
local current = redis.call('HMGET', job, 'at', 'state')
if place ~= '' and (current[1] ~= place or current[2] == 'succeeded') then return {'conflict'} end
local status = redis.call('HGET', endpoint, 'st')
if not status then return {'missing'} end
local idle = {held = true, failed = true}
local function left(is) return is[1] == 'succeeded' and is[2] and is[3] and not is[4] end
if trigger == 'replay' then
  local is = redis.call('HMGET', KEYS[#KEYS - 1], 'st', 'p', 'n', 'done') -- the one delivery
  if not is[1] then return {'missing'} end
  if is[1] == 'sending' or left(is) and is[3] ~= ARGV[#ARGV - 2] then return {'conflict'} end
  idle[is[1]] = true
end

mark_done(mark, '')
if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
local arg = named_args + 1 + tonumber(field_count)
local count = 0
for key = named_keys + 1, #KEYS, 2 do
  local is = redis.call('HMGET', KEYS[key], 'st', 'p', 'n', 'done')
  if is[1] and idle[is[1]] then
    count = count + 1
    if left(is) then redis.call('HSET', KEYS[key], 'done', is[3], 'lat', ARGV[arg + 3], 'code', ARGV[arg + 4]) end
    redis.call('HSET', KEYS[key], 'st', 'pending', 'run', '0', 'trig', trigger, 'rpl', replay_id)
    redis.call('HDEL', KEYS[key], 'cat', 'nat')
    if trigger == 'replay' then raise_count(KEYS[key], 'rc', 1) end
    redis.call('PERSIST', KEYS[key])
    redis.call('PERSIST', KEYS[key + 1])
    redis.call('ZADD', queue, now_ms, ARGV[arg])
    redis.call('ZADD', open, ARGV[arg + 1], ARGV[arg])
  end
  arg = arg + 5
end
if trigger == 'replay' then redis.call('HDEL', endpoint, 'pause') end
if count > 0 and status == 'active' and wake(ready, ready_member, now_ms) then tell_workers(ready) end
redis.call('HSET', job, values(named_args + 1, field_count))
if trigger == 'recovery' then raise_count(job, 'queued', count) end
redis.call('PEXPIRE', job, '2592000000') -- 30 days, as deliveries
if new_job ~= '' then
  redis.call('ZADD', jobs, now_ms, new_job)
  tell_workers(jobs)
end
if event_type ~= '' then
  append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account, event_envelope)
end
if audit_head ~= '' then append_audit(sequences, audit, audit_head, audit_tail, audit_envelope) end
return revised(sequences, {'queued', whole(count)})
