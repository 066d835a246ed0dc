-- Moves the recomputing of a payout's sum along, or ends it: the sum is right,
-- or the payout is held. The place up to which it is recomputed is compared, so
-- that each transaction counts once.
-- KEYS: 1 payout, 2 payouts, 3 transaction, 4 index of pending, 5 index of held,
--   6 sequences, 7 events, 8 audit, 9 dispatch, 10 webhooks, 11 the operation's
--   mark
-- ARGV: 1 place, 2 groups, 3 next place, 4 tally, 5 more, right or held,
--   6 now (ms), 7 payouts member, 8 index member of the transaction, 9 why it is
--   held, 10 event head, 11 event tail, 12 event id, 13 event type,
--   14 event account, 15 audit head, 16 audit tail
-- Returns: {'checked'} | {'passed'}
if earlier(KEYS[11]) then return {'checked'} end
local now = redis.call('HMGET', KEYS[1], 'st', 'grp', 'tat', 'step')
if now[1] ~= 'pending' or now[2] ~= ARGV[2] or (now[3] or '') ~= ARGV[1] then return {'passed'} end

mark_done(KEYS[11], '')
if ARGV[5] == 'more' then
  redis.call('HSET', KEYS[1], 'tat', ARGV[3], 'tally', ARGV[4])
  return {'checked'}
end
redis.call('HDEL', KEYS[1], 'tat', 'tally')
if ARGV[5] == 'right' then
  redis.call('HSET', KEYS[1], 'sum', ARGV[2])
  if now[4] == 'check' then redis.call('HSET', KEYS[1], 'step', 'available', 'at', '0') end
  return {'checked'}
end
redis.call('HSET', KEYS[1], 'st', 'held', 'step', 'check', 'held', ARGV[9], 'upd', ARGV[6])
redis.call('HDEL', KEYS[1], 'sum')
redis.call('ZREM', KEYS[2], ARGV[7])
local position = redis.call('ZSCORE', KEYS[4], ARGV[8])
if position then
  redis.call('HSET', KEYS[3], 'st', 'held', 'upd', ARGV[6])
  redis.call('ZREM', KEYS[4], ARGV[8])
  redis.call('ZADD', KEYS[5], position, ARGV[8])
end
append_event(KEYS[6], KEYS[7], KEYS[9], KEYS[10], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14])
append_audit(KEYS[6], KEYS[8], ARGV[15], ARGV[16])
return {'checked'}
