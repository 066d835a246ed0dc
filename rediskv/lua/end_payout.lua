-- Records what the payout step said: paid or failed. The first record counts.
-- What a failed payout was to pay is to be paid again, on a date that is not
-- closed yet.
-- KEYS: 1 payout, 2 payouts, 3 transaction, 4 index of in_transit,
--   5 index of its new status, 6 sequences, 7 events, 8 audit, 9 dispatch,
--   10 webhooks, 11 account, 12 payable, 13 cutoffs
-- ARGV: 1 paid or failed, 2 why it failed, 3 now (ms), 4 payouts member,
--   5 index member of the transaction, 6 event head, 7 event tail, 8 event id,
--   9 event type, 10 event account, 11 audit head, 12 audit tail, 13 new date,
--   14 cutoffs member, 15 when to look at it (ms), 16 number of payable fields
--   and values, these; then what the payout step calls it (or empty)
-- Returns: {'recorded'} | {'passed'} | {'stale'} | {'damaged', key}
if redis.call('HGET', KEYS[1], 'step') ~= 'pay' then return {'passed'} end
local closed = redis.call('HGET', KEYS[11], 'closed')
if ARGV[1] == 'failed' and closed and closed >= ARGV[13] then return {'stale'} end
local broken, tell = sequenced(KEYS[6])
if broken then return broken end
local place = placed(KEYS[4], ARGV[5], KEYS[3])
if not place then return {'damaged', KEYS[3]} end

redis.call('HSET', KEYS[3], 'st', ARGV[1], 'upd', ARGV[3])
if ARGV[#ARGV] ~= '' then
  redis.call('HSET', KEYS[1], 'ref', ARGV[#ARGV])
  redis.call('HSET', KEYS[3], 'ref', ARGV[#ARGV])
end
redis.call('ZREM', KEYS[4], ARGV[5])
redis.call('ZADD', KEYS[5], place, ARGV[5])
if ARGV[1] == 'paid' then
  redis.call('HSET', KEYS[1], 'st', 'paid', 'step', 'settle', 'at', '0', 'upd', ARGV[3])
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
else
  redis.call('HSET', KEYS[1], 'st', 'failed', 'step', 'done', 'why', ARGV[2], 'upd', ARGV[3])
  redis.call('ZREM', KEYS[2], ARGV[4])
  redis.call('HSET', KEYS[12], unpack(ARGV, 17, 16 + tonumber(ARGV[16])))
  wake(KEYS[13], ARGV[14], ARGV[15])
end
append_event(KEYS[6], KEYS[7], KEYS[9], KEYS[10], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], tell)
append_audit(KEYS[6], KEYS[8], ARGV[11], ARGV[12])
return {'recorded'}
