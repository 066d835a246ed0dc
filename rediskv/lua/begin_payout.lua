-- Takes a payout whose captures and fees are available, to pay it. The lease is
-- its place in the queue: whoever does not report until then has lost it.
-- KEYS: payout, payouts, transaction, pending_index, in_transit_index
-- ARGV: operation, now_ms, lease_until, payouts_member, transaction_member
-- Returns: {'taken', {field, value, …}} | {'busy'} | {'damaged', key}
local now = redis.call('HMGET', payout, 'step', 'op', 'lease', 'st', 'grp', 'sum', 'asked')
if now[1] ~= 'pay' then return {'busy'} end
if now[2] == operation then return {'taken', redis.call('HGETALL', payout)} end
-- Only a sum that was recomputed is paid. What is in transit may be paid already.
if now[4] == 'pending' and now[5] ~= now[6] then return {'busy'} end
if now[3] and tonumber(now[3]) > tonumber(now_ms) then return {'busy'} end
local moves = redis.call('HGET', transaction, 'st') == 'pending'
local place = moves and placed(pending_index, transaction_member, transaction)
if moves and not place then return {'damaged', transaction} end

redis.call('HSET', payout, 'op', operation, 'lease', lease_until, 'st', 'in_transit', 'upd', now_ms,
  'asked', whole((tonumber(now[7] or '') or 0) + 1))
redis.call('ZADD', payouts, lease_until, payouts_member)
if moves then
  redis.call('HSET', transaction, 'st', 'in_transit', 'upd', now_ms)
  redis.call('ZREM', pending_index, transaction_member)
  redis.call('ZADD', in_transit_index, place, transaction_member)
end
return {'taken', redis.call('HGETALL', payout)}
