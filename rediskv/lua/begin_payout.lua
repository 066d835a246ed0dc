-- Takes a payout whose captures and fees are available, to pay it. The lease is
-- its place in the queue: whoever does not report until then has lost it.
-- KEYS: 1 payout, 2 payouts, 3 transaction, 4 index of pending,
--   5 index of in_transit
-- ARGV: 1 operation, 2 now (ms), 3 lease until (ms), 4 payouts member,
--   5 index member of the transaction
-- Returns: {'taken', {field, value, …}} | {'busy'} | {'damaged', key}
local now = redis.call('HMGET', KEYS[1], 'step', 'op', 'lease', 'st', 'grp', 'sum', 'asked')
if now[1] ~= 'pay' then return {'busy'} end
if now[2] == ARGV[1] then return {'taken', redis.call('HGETALL', KEYS[1])} end
-- Only a sum that was recomputed is paid. What is in transit may be paid already.
if now[4] == 'pending' and now[5] ~= now[6] then return {'busy'} end
if now[3] and tonumber(now[3]) > tonumber(ARGV[2]) then return {'busy'} end
local moves = redis.call('HGET', KEYS[3], 'st') == 'pending'
local place = moves and placed(KEYS[4], ARGV[5], KEYS[3])
if moves and not place then return {'damaged', KEYS[3]} end

redis.call('HSET', KEYS[1], 'op', ARGV[1], 'lease', ARGV[3], 'st', 'in_transit', 'upd', ARGV[2],
  'asked', whole((tonumber(now[7] or '') or 0) + 1))
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
if moves then
  redis.call('HSET', KEYS[3], 'st', 'in_transit', 'upd', ARGV[2])
  redis.call('ZREM', KEYS[4], ARGV[5])
  redis.call('ZADD', KEYS[5], place, ARGV[5])
end
return {'taken', redis.call('HGETALL', KEYS[1])}
