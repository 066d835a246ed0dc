-- Creates a payment with its ticket, transactions, indexes, event, audit
-- entry and idempotency record; what is captured at once is to be paid. It is
-- counted in the limits of its perimeter, or not made if one has no room.
-- KEYS: 1 grant, 2 idempotency record, 3 payment, 4 ticket, 5 sequences,
--   6 events, 7 audit, 8 due, 9 moves, 10 all transactions,
--   11 transactions of the account, 12 capture, 13 account, 14 organization,
--   15 dispatch, 16 webhooks, 17 payable, 18 payable group, 19 cutoffs, then for
--   each transaction: its hash, the index of its status; then the counters
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 account revision, 7 organization revision, 8 event head,
--   9 event tail, 10 event id, 11 event type, 12 event account,
--   13 audit head, 14 audit tail, 15 deadline (ms or empty), 16 due member,
--   17 ticket, 18 capture (or empty), 19 sales day of the capture (or empty),
--   20 how the group's fields begin, 21 captured, 22 fees, 23 cutoffs member,
--   24 when to look at it (ms), 25 number of counters, 26 number of payment
--   fields, the fields, then for each transaction: index member, 1 if it joins
--   the group (or empty), number of fields, the fields; then for each counter:
--   what to add, its limit, its lifetime (ms; empty: only where it exists)
-- Returns: {'created'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'stale'} | {'toomuch'} | {'exhausted', number of the counter}
local instead = answered(KEYS[1], ARGV[2], KEYS[2], ARGV[1], ARGV[3])
if instead then return instead end
if redis.call('HGET', KEYS[13], 'v') ~= ARGV[6] or redis.call('HGET', KEYS[14], 'v') ~= ARGV[7] then
  return {'stale'}
end
local bar = ARGV[19] ~= '' and barred(KEYS[13], ARGV[6], ARGV[19], KEYS[17], ARGV[20])
if bar then return bar end
local broken, tell = sequenced(KEYS[5])
if broken then return broken end
local counters = tonumber(ARGV[25])
local key, at = #KEYS - counters, #ARGV - 3 * counters
for i = 1, counters do
  -- All of them are far below 2^53.
  local used = counted(KEYS[key + i])
  if used == nil then return {'damaged', KEYS[key + i]} end
  if (used or 0) + tonumber(ARGV[at + 3 * i - 2]) > tonumber(ARGV[at + 3 * i - 1]) then
    return {'exhausted', whole(i)}
  end
end

redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4])
local untouched = {}
for i = 1, counters do
  local lifetime = ARGV[at + 3 * i]
  if lifetime ~= '' or redis.call('EXISTS', KEYS[key + i]) == 1 then
    redis.call('INCRBY', KEYS[key + i], ARGV[at + 3 * i - 2])
  else
    untouched[#untouched + 1] = 'use' .. whole(i - 1) -- the payment's field
  end
  if lifetime ~= '' then redis.call('PEXPIRE', KEYS[key + i], lifetime) end
end
redis.call('SET', KEYS[4], ARGV[17])
if ARGV[18] ~= '' then redis.call('SET', KEYS[12], ARGV[18]) end
local last = 26 + tonumber(ARGV[26])
redis.call('HSET', KEYS[3], unpack(ARGV, 27, last))
-- What was not counted is not given back: the counter may be another payee's by then.
for _, field in ipairs(untouched) do redis.call('HSET', KEYS[3], field, '-') end
if ARGV[15] ~= '' then redis.call('ZADD', KEYS[8], ARGV[15], ARGV[16]) end
if ARGV[19] ~= '' then join(KEYS[17], ARGV[20], ARGV[21], ARGV[22], KEYS[19], ARGV[23], ARGV[24]) end
local n = append_event(KEYS[5], KEYS[6], KEYS[15], KEYS[16], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], tell)
append_audit(KEYS[5], KEYS[7], ARGV[13], ARGV[14])
local position = n * 16
for key = 20, #KEYS - counters, 2 do
  local member, fields = ARGV[last + 1], tonumber(ARGV[last + 3])
  local at = whole(position)
  redis.call('HSET', KEYS[key], 'pos', at, unpack(ARGV, last + 4, last + 3 + fields))
  redis.call('ZADD', KEYS[10], at, member)
  redis.call('ZADD', KEYS[11], at, member)
  redis.call('ZADD', KEYS[key + 1], at, member)
  if ARGV[last + 2] ~= '' then redis.call('ZADD', KEYS[18], at, member) end
  -- The authorization stands in the payment's own hash.
  if key > 20 then redis.call('RPUSH', KEYS[9], member) end
  last = last + 3 + fields
  position = position + 1
end
return {'created'}
