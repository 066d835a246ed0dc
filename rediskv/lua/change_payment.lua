-- Moves a payment to its next state: capture, cancel, review, expiry. Go has
-- computed the whole change from revision ARGV[6]; if the payment has moved on
-- since, nothing is written. What it gives back to the limits of its perimeter
-- is counted down, if that window is still kept. A counter that is no number
-- keeps nobody's payment from its end: it stays as it is.
-- KEYS: 1 grant, 2 idempotency record, 3 payment, 4 ticket, 5 sequences,
--   6 events, 7 audit, 8 due, 9 moves, 10 all transactions,
--   11 transactions of the account, 12 capture, 13 authorization's hash,
--   14 index of its old status, 15 index of its new status, 16 dispatch,
--   17 webhooks, 18 account, 19 payable, 20 payable group, 21 cutoffs (of a
--   capture), then for each new transaction: its hash, the index of its
--   status; then the counters
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 payment revision, 7 now (ms), 8 event head, 9 event tail,
--   10 event id, 11 event type, 12 event account, 13 audit head,
--   14 audit tail, 15 deadline (ms or empty), 16 due member, 17 ticket,
--   18 capture (or empty), 19 'client' or 'clock', 20 authorization's member,
--   21 new status, 22 sales day of the capture (or empty), 23 account revision,
--   24 how the group's fields begin, 25 captured, 26 fees, 27 cutoffs member,
--   28 when to look at it (ms), 29 number of counters, 30 number of payment
--   fields, the fields, then for each new transaction: index member, 1 if it
--   joins the group (or empty), number of fields, the fields; then for each
--   counter: what it gets back
-- Returns: {'changed', counters that are no numbers} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'missing'} | {'conflict'} | {'expired'} | {'early'} |
--   {'stale'} | {'toomuch'}
-- The ticket refers to every event of its payment; nobody else mints this one.
local function done() return string.find(redis.call('GET', KEYS[4]) or '', '"' .. ARGV[10] .. '"', 1, true) end
local instead = answered(KEYS[1], ARGV[2], KEYS[2], ARGV[1], ARGV[3])
if instead then return instead[1] == 'grant' and done() and {'done'} or instead end
local now = redis.call('HMGET', KEYS[3], 'v', 'due')
if not now[1] then return {'missing'} end
if now[1] ~= ARGV[6] then return {done() and 'done' or 'conflict'} end
local past = now[2] and now[2] ~= '' and tonumber(now[2]) <= tonumber(ARGV[7])
if ARGV[19] == 'client' and past then return {'expired'} end
if ARGV[19] == 'clock' and not past then return {'early'} end
local bar = ARGV[22] ~= '' and barred(KEYS[18], ARGV[23], ARGV[22], KEYS[19], ARGV[24])
if bar then return bar end
local broken, tell = sequenced(KEYS[5])
if broken then return broken end
local place = placed(KEYS[14], ARGV[20], KEYS[13])
if not place then return {'damaged', KEYS[13]} end

if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
redis.call('SET', KEYS[4], ARGV[17])
if ARGV[18] ~= '' then redis.call('SET', KEYS[12], ARGV[18]) end
local counters, damaged = tonumber(ARGV[29]), {}
for i = 0, counters - 1 do
  local counter, back = KEYS[#KEYS - i], ARGV[#ARGV - i]
  -- Who is paid does not wait for a counter that cannot be read.
  local used = counted(counter)
  if used then redis.call('DECRBY', counter, back) end
  if used == nil then damaged[#damaged + 1] = counter end
end
local last = 30 + tonumber(ARGV[30])
redis.call('HSET', KEYS[3], unpack(ARGV, 31, last))
if ARGV[22] ~= '' then join(KEYS[19], ARGV[24], ARGV[25], ARGV[26], KEYS[21], ARGV[27], ARGV[28]) end
if ARGV[15] ~= '' then
  redis.call('ZADD', KEYS[8], ARGV[15], ARGV[16])
else
  redis.call('ZREM', KEYS[8], ARGV[16])
end
local n = append_event(KEYS[5], KEYS[6], KEYS[16], KEYS[17], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], tell)
append_audit(KEYS[5], KEYS[7], ARGV[13], ARGV[14])
redis.call('HSET', KEYS[13], 'st', ARGV[21], 'upd', ARGV[7])
if KEYS[14] ~= KEYS[15] then
  redis.call('ZREM', KEYS[14], ARGV[20])
  redis.call('ZADD', KEYS[15], place, ARGV[20])
end
local position = n * 16
for key = 22, #KEYS - counters, 2 do
  local member, fields = ARGV[last + 1], tonumber(ARGV[last + 3])
  local at = whole(position)
  redis.call('HSET', KEYS[key], 'pos', at, unpack(ARGV, last + 4, last + 3 + fields))
  redis.call('ZADD', KEYS[10], at, member)
  redis.call('ZADD', KEYS[11], at, member)
  redis.call('ZADD', KEYS[key + 1], at, member)
  if ARGV[last + 2] ~= '' then redis.call('ZADD', KEYS[20], at, member) end
  redis.call('RPUSH', KEYS[9], member)
  last = last + 3 + fields
  position = position + 1
end
return {'changed', unpack(damaged)}
