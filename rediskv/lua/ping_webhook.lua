-- Queues a test delivery, which is of no event: its body is its own, and it is
-- not among the endpoint's deliveries. While the endpoint is disabled it is held,
-- for a replay, until its lifetime is over.
-- KEYS: 1 grant, 2 idempotency record, 3 endpoint, 4 queue, 5 open, 6 ready,
--   7 sequences, 8 audit, 9 delivery
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 now (ms), 7 ready member, 8 delivery id, 9 audit head,
--   10 audit tail, 11 place among open deliveries, 12 lifetime when held (ms),
--   13 number of fields, the fields
-- Returns: {'queued'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'missing'}
if redis.call('EXISTS', KEYS[9]) == 1 then return {'done'} end
local instead = answered(KEYS[1], ARGV[2], KEYS[2], ARGV[1], ARGV[3])
if instead then return instead end
local status = redis.call('HGET', KEYS[3], 'st')
if not status then return {'missing'} end

if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
local state = status == 'active' and 'pending' or 'held'
redis.call('HSET', KEYS[9], 'st', state, unpack(ARGV, 14, 13 + tonumber(ARGV[13])))
if state == 'held' then
  redis.call('PEXPIRE', KEYS[9], ARGV[12])
else
  redis.call('ZADD', KEYS[5], ARGV[11], ARGV[8])
  redis.call('ZADD', KEYS[4], ARGV[6], ARGV[8])
  wake(KEYS[6], ARGV[7], ARGV[6])
end
append_audit(KEYS[7], KEYS[8], ARGV[9], ARGV[10])
return {'queued'}
