-- Lets a payout go that was held: it is pending again, of what its transactions
-- add up to. What was held for another reason meanwhile stays.
-- KEYS: 1 grant, 2 idempotency record, 3 payout, 4 payouts, 5 transaction,
--   6 index of held, 7 index of pending, 8 sequences, 9 events, 10 audit,
--   11 dispatch, 12 webhooks, 13 the operation's mark
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 when it was held (ms), 7 groups as they are stored, 8 groups as
--   they are recomputed, 9 amount, 10 now (ms), 11 payouts member, 12 index
--   member of the transaction, 13 event head, 14 event tail, 15 event id,
--   16 event type, 17 event account, 18 audit head, 19 audit tail
-- Returns: {'released'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'conflict'}
local instead = answered(KEYS[1], ARGV[2], KEYS[2], ARGV[1], ARGV[3], KEYS[13])
if instead then return instead end
local now = redis.call('HMGET', KEYS[3], 'st', 'upd', 'grp')
local position = redis.call('ZSCORE', KEYS[6], ARGV[12])
if now[1] ~= 'held' or now[2] ~= ARGV[6] or now[3] ~= ARGV[7] or not position then return {'conflict'} end

mark_done(KEYS[13], '')
if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
redis.call('HSET', KEYS[3], 'st', 'pending', 'step', 'available', 'at', '0', 'grp', ARGV[8], 'sum', ARGV[8], 'upd', ARGV[10])
redis.call('HDEL', KEYS[3], 'held', 'lease')
redis.call('HSET', KEYS[5], 'st', 'pending', 'amt', ARGV[9], 'upd', ARGV[10])
redis.call('ZREM', KEYS[6], ARGV[12])
redis.call('ZADD', KEYS[7], position, ARGV[12])
redis.call('ZADD', KEYS[4], ARGV[10], ARGV[11])
append_event(KEYS[8], KEYS[9], KEYS[11], KEYS[12], ARGV[13], ARGV[14], ARGV[15], ARGV[16], ARGV[17])
append_audit(KEYS[8], KEYS[10], ARGV[18], ARGV[19])
return {'released'}
