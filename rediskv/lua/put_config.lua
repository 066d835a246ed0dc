-- Writes an organization's configuration, all of it or nothing. Each object
-- is written only if it still has the revision that the change was computed
-- from.
-- KEYS: 1 sequences, 2 events, 3 audit, 4 dispatch, 5 webhooks,
--   6 organizations of the partition, 7 cutoffs, then the hashes, then the
--   strings of immutable versions
-- ARGV: 1 channel, 2 organization, 3 operation, 4 number of hashes,
--   then for each hash: expected revision (empty: none), number of fields, the
--   fields; then number of strings, the strings; then number of events, and
--   for each: head, tail, id, type, account; then number of audit entries, and
--   for each: head, tail; then the cutoffs members of accounts to look at
-- Returns: {'written'} | {'done'} | {'conflict'}
if redis.call('HGET', KEYS[1], 'config') == ARGV[3] then return {'done'} end
local hashes = tonumber(ARGV[4])
local at = 5
for i = 1, hashes do
  local revision = redis.call('HGET', KEYS[7 + i], 'v') or ''
  if revision ~= ARGV[at] then return {'conflict'} end
  at = at + 2 + tonumber(ARGV[at + 1])
end
local strings = tonumber(ARGV[at])
for i = 1, strings do
  local there = redis.call('GET', KEYS[7 + hashes + i])
  if there and there ~= ARGV[at + i] then return {'conflict'} end
end

redis.call('HSET', KEYS[1], 'config', ARGV[3])
redis.call('SADD', KEYS[6], ARGV[2])
at = 5
for i = 1, hashes do
  local fields = tonumber(ARGV[at + 1])
  redis.call('HSET', KEYS[7 + i], unpack(ARGV, at + 2, at + 1 + fields))
  at = at + 2 + fields
end
for i = 1, strings do
  redis.call('SET', KEYS[7 + hashes + i], ARGV[at + i])
end
at = at + strings + 1
local events = tonumber(ARGV[at])
at = at + 1
for i = 1, events do
  append_event(KEYS[1], KEYS[2], KEYS[4], KEYS[5], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
  at = at + 5
end
local entries = tonumber(ARGV[at])
at = at + 1
for i = 1, entries do
  append_audit(KEYS[1], KEYS[3], ARGV[at], ARGV[at + 1])
  at = at + 2
end
for i = at, #ARGV do
  redis.call('ZADD', KEYS[7], 'XX', '0', ARGV[i])
end
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'written'}
