-- Makes a payout of groups that are to be paid, with its transaction, event and
-- audit entry, and takes the groups out. The sales day of its date is closed, so
-- that the groups are what Go has read or somebody else has taken them.
-- KEYS: 1 account, 2 payable, 3 payout, 4 sequences, 5 events, 6 audit,
--   7 dispatch, 8 webhooks, 9 transaction, 10 index of its status,
--   11 all transactions, 12 transactions of the account, 13 the payout's own,
--   14 payouts
-- ARGV: 1 payout date, 2 event head, 3 event tail, 4 event id, 5 event type,
--   6 event account, 7 audit head, 8 audit tail, 9 payouts member, 10 now (ms),
--   11 index member of the transaction, 12 number of payable fields and values,
--   these, then number of payout fields, these, then number of transaction
--   fields, these
-- Returns: {'made'} | {'done'} | {'early'} | {'conflict'} | {'damaged', key}
if redis.call('EXISTS', KEYS[3]) == 1 then return {'done'} end
local closed = redis.call('HGET', KEYS[1], 'closed')
if not closed or closed < ARGV[1] then return {'early'} end
local payable = tonumber(ARGV[12])
for i = 13, 12 + payable, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i]) ~= ARGV[i + 1] then return {'conflict'} end
end
local broken, tell = sequenced(KEYS[4])
if broken then return broken end

for i = 13, 12 + payable, 2 do redis.call('HDEL', KEYS[2], ARGV[i]) end
local at = 13 + payable
redis.call('HSET', KEYS[3], unpack(ARGV, at + 1, at + tonumber(ARGV[at])))
at = at + 1 + tonumber(ARGV[at])
local n = append_event(KEYS[4], KEYS[5], KEYS[7], KEYS[8], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tell)
append_audit(KEYS[4], KEYS[6], ARGV[7], ARGV[8])
local position = whole(n * 16)
redis.call('HSET', KEYS[9], 'pos', position, unpack(ARGV, at + 1, at + tonumber(ARGV[at])))
for i = 10, 13 do redis.call('ZADD', KEYS[i], position, ARGV[11]) end
redis.call('ZADD', KEYS[14], ARGV[10], ARGV[9])
return {'made'}
