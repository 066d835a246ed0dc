-- Shared by every script; the Store puts it in front of each.
-- Decide first, write last: nothing rolls back. Outcomes are returned as
-- values. Numbers become text only through whole(): Lua prints 1e+14.

local function whole(n) return string.format('%.0f', n) end

-- The grant's version is the token's, so a revoked grant commits nothing.
local function granted(key, version)
  return version == '' or redis.call('HGET', key, 'v') == version
end

-- What an idempotency record says: nil (never seen), 'done' (this very
-- operation, sent again by the client library), 'repeated' or 'reused'.
local function remembered(key, operation, fingerprint)
  if fingerprint == '' then return nil end
  local record = redis.call('GET', key)
  if not record then return nil end
  local op, print = string.match(record, '^([^\n]*)\n([^\n]*)\n')
  if op == operation then return {'done'} end
  if print == fingerprint then return {'repeated', record} end
  return {'reused'}
end

-- Events about endpoints and deliveries are never delivered: they would feed on
-- themselves. Without an endpoint there is nobody to hand an event over to.
local function append_event(seq, stream, dispatch, hooks, head, tail, id, kind, account)
  local n = redis.call('HINCRBY', seq, 'event', 1)
  local at = redis.call('XADD', stream, '*', 'i', id, 't', kind, 'a', account, 'b', head .. whole(n) .. tail)
  if redis.call('EXISTS', hooks) == 1 and not string.find(kind, '^webhook_endpoint%.') and not string.find(kind, '^delivery%.') then
    local org = string.match(stream, '^{[^}]*}:(.*):events$')
    redis.call('XADD', dispatch, '*', 'o', org, 's', at, 'i', id, 't', kind, 'a', account, 'n', whole(n))
  end
  return n
end

-- The entry's head has its id. Scripts without an operation id look whether the
-- client library has sent them a second time after a lost reply.
local function audited(stream, head)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', '16')) do
    if string.sub(entry[2][2], 1, #head) == head then return true end
  end
  return false
end

-- Counts a change that instances have to know of, and notes whose it is.
local function note_change(changes, organization)
  redis.call('ZADD', changes, redis.call('ZINCRBY', changes, '1', 'count'), organization)
end

local function append_audit(seq, stream, head, tail)
  local n = redis.call('HINCRBY', seq, 'audit', 1)
  redis.call('XADD', stream, '*', 'b', head .. whole(n) .. tail)
end

-- The time at which an endpoint is looked at next is never later than score.
local function wake(ready, member, score)
  local at = redis.call('ZSCORE', ready, member)
  if not at or tonumber(at) > tonumber(score) then redis.call('ZADD', ready, score, member) end
end

-- A capture joins the group of what its account is paid on one date, unless its
-- sales day (batch) is closed, the account has changed, or the group's sum would
-- leave the numbers that add up. Returns why not, or nil. group is how the
-- group's fields begin: c captured, f fees, n captures.
local function barred(account, revision, batch, payable, group)
  local now = redis.call('HMGET', account, 'v', 'closed')
  if now[1] ~= revision or (now[2] and now[2] >= batch) then return {'stale'} end
  local sums = redis.call('HMGET', payable, group .. 'c', group .. 'f')
  if tonumber(sums[1] or '0') > 1e18 or tonumber(sums[2] or '0') > 1e18 then return {'toomuch'} end
end

local function join(payable, group, captured, fees, cutoffs, member, look)
  redis.call('HINCRBY', payable, group .. 'c', captured)
  redis.call('HINCRBY', payable, group .. 'f', fees)
  redis.call('HINCRBY', payable, group .. 'n', '1')
  wake(cutoffs, member, look)
end

-- Objects that are written together, from ARGV[at] on: number of hashes, for
-- each its expected revision (empty: none), number of fields (0: it is only
-- compared) and the fields; then number of strings of immutable versions, and
-- the strings. Their keys begin at KEYS[key]. conflicting reports whether one is
-- not as expected; put_objects writes them and returns where keys and arguments
-- go on.
local function conflicting(key, at)
  local hashes = tonumber(ARGV[at])
  at = at + 1
  for i = 0, hashes - 1 do
    if (redis.call('HGET', KEYS[key + i], 'v') or '') ~= ARGV[at] then return true end
    at = at + 2 + tonumber(ARGV[at + 1])
  end
  for i = 1, tonumber(ARGV[at]) do
    local there = redis.call('GET', KEYS[key + hashes + i - 1])
    if there and there ~= ARGV[at + i] then return true end
  end
  return false
end

local function put_objects(key, at)
  local hashes = tonumber(ARGV[at])
  at = at + 1
  for i = 0, hashes - 1 do
    local fields = tonumber(ARGV[at + 1])
    if fields > 0 then redis.call('HSET', KEYS[key + i], unpack(ARGV, at + 2, at + 1 + fields)) end
    at = at + 2 + fields
  end
  key = key + hashes
  local strings = tonumber(ARGV[at])
  for i = 1, strings do redis.call('SET', KEYS[key + i - 1], ARGV[at + i]) end
  return key + strings, at + strings + 1
end

-- What the files of an organization's exports take up: sizes has the bytes of
-- each and of all, files when each is gone by itself. Bytes count until their
-- file is gone, so that whatever dies in between, too much is counted and never
-- too little. taken takes off at most a thousand files that are gone.
local function free(sizes, files, id)
  local size = redis.call('HGET', sizes, id)
  if size then
    redis.call('HINCRBY', sizes, 'all', '-' .. size)
    redis.call('HDEL', sizes, id)
  end
  redis.call('ZREM', files, id)
end

local function taken(sizes, files, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', files, '-inf', now, 'LIMIT', '0', '1000')) do free(sizes, files, id) end
  return tonumber(redis.call('HGET', sizes, 'all') or '0')
end

-- From ARGV[at] on: number of events, for each its head, tail, id, type and
-- account; then number of audit entries, for each its head and tail.
local function append_all(seq, stream, audit, dispatch, hooks, at)
  local events = tonumber(ARGV[at])
  at = at + 1
  for i = 1, events do
    append_event(seq, stream, dispatch, hooks, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
    at = at + 5
  end
  local entries = tonumber(ARGV[at])
  at = at + 1
  for i = 1, entries do
    append_audit(seq, audit, ARGV[at], ARGV[at + 1])
    at = at + 2
  end
  return at
end

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
--   what to add, its limit, its lifetime (ms)
-- Returns: {'created'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'grant'} | {'stale'} | {'toomuch'} | {'exhausted', number of the counter}
if not granted(KEYS[1], ARGV[2]) then return {'grant'} end
local seen = remembered(KEYS[2], ARGV[1], ARGV[3])
if seen then return seen end
if redis.call('HGET', KEYS[13], 'v') ~= ARGV[6] or redis.call('HGET', KEYS[14], 'v') ~= ARGV[7] then
  return {'stale'}
end
local bar = ARGV[19] ~= '' and barred(KEYS[13], ARGV[6], ARGV[19], KEYS[17], ARGV[20])
if bar then return bar end
local counters = tonumber(ARGV[25])
local key, at = #KEYS - counters, #ARGV - 3 * counters
for i = 1, counters do
  -- All of them are far below 2^53.
  if tonumber(redis.call('GET', KEYS[key + i]) or '0') + tonumber(ARGV[at + 3 * i - 2]) > tonumber(ARGV[at + 3 * i - 1]) then
    return {'exhausted', whole(i)}
  end
end

redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4])
for i = 1, counters do
  redis.call('INCRBY', KEYS[key + i], ARGV[at + 3 * i - 2])
  redis.call('PEXPIRE', KEYS[key + i], ARGV[at + 3 * i])
end
redis.call('SET', KEYS[4], ARGV[17])
if ARGV[18] ~= '' then redis.call('SET', KEYS[12], ARGV[18]) end
local last = 26 + tonumber(ARGV[26])
redis.call('HSET', KEYS[3], unpack(ARGV, 27, last))
if ARGV[15] ~= '' then redis.call('ZADD', KEYS[8], ARGV[15], ARGV[16]) end
if ARGV[19] ~= '' then join(KEYS[17], ARGV[20], ARGV[21], ARGV[22], KEYS[19], ARGV[23], ARGV[24]) end
local n = append_event(KEYS[5], KEYS[6], KEYS[15], KEYS[16], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12])
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
