-- Writes rules, activations and the accounts that they move, all of it or
-- nothing. Each hash is written, or only compared, if it still has the revision
-- that the change was computed from; the first one is always written.
-- KEYS: 1 grant, 2 idempotency record, 3 sequences, 4 events, 5 audit,
--   6 dispatch, 7 webhooks, 8 changes, 9 first hash, then the other hashes, the
--   strings of immutable versions, the sorted sets
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 channel (empty: nobody has to know), 7 organization, 8 number of
--   hashes, then for each: expected revision (empty: none), number of fields
--   (0: it is only compared), the fields; then number of strings, the strings;
--   then number of sorted sets, and for each: score (empty: remove), member;
--   then number of events, and for each: head, tail, id, type, account; then
--   number of audit entries, and for each: head, tail
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'grant'} | {'conflict'}
if not granted(KEYS[1], ARGV[2]) then return {'grant'} end
local seen = remembered(KEYS[2], ARGV[1], ARGV[3])
if seen then return seen end
if redis.call('HGET', KEYS[9], 'op') == ARGV[1] then return {'done'} end
local hashes = tonumber(ARGV[8])
local at = 9
for i = 1, hashes do
  local revision = redis.call('HGET', KEYS[8 + i], 'v') or ''
  if revision ~= ARGV[at] then return {'conflict'} end
  at = at + 2 + tonumber(ARGV[at + 1])
end
local strings = tonumber(ARGV[at])
for i = 1, strings do
  local there = redis.call('GET', KEYS[8 + hashes + i])
  if there and there ~= ARGV[at + i] then return {'conflict'} end
end

if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
at = 9
for i = 1, hashes do
  local fields = tonumber(ARGV[at + 1])
  if fields > 0 then redis.call('HSET', KEYS[8 + i], unpack(ARGV, at + 2, at + 1 + fields)) end
  at = at + 2 + fields
end
redis.call('HSET', KEYS[9], 'op', ARGV[1])
for i = 1, strings do
  redis.call('SET', KEYS[8 + hashes + i], ARGV[at + i])
end
at = at + strings + 1
local sets = tonumber(ARGV[at])
at = at + 1
for i = 1, sets do
  if ARGV[at] == '' then
    redis.call('ZREM', KEYS[8 + hashes + strings + i], ARGV[at + 1])
  else
    redis.call('ZADD', KEYS[8 + hashes + strings + i], ARGV[at], ARGV[at + 1])
  end
  at = at + 2
end
local events = tonumber(ARGV[at])
at = at + 1
for i = 1, events do
  append_event(KEYS[3], KEYS[4], KEYS[6], KEYS[7], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
  at = at + 5
end
local entries = tonumber(ARGV[at])
at = at + 1
for i = 1, entries do
  append_audit(KEYS[3], KEYS[5], ARGV[at], ARGV[at + 1])
  at = at + 2
end
if ARGV[6] ~= '' then
  redis.call('INCR', KEYS[8])
  redis.call('PUBLISH', ARGV[6], ARGV[7])
end
return {'written'}
