-- Writes rules, activations and the accounts that they move, all of it or
-- nothing. Each hash is written, or only compared, if it still has the revision
-- that the change was computed from; the first one is always written.
-- KEYS: 1 grant, 2 idempotency record, 3 sequences, 4 events, 5 audit,
--   6 dispatch, 7 webhooks, 8 changes, 9 first hash, then the other hashes, the
--   strings of immutable versions, the sorted sets
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 channel (empty: nobody has to know), 7 organization, then
--   the objects; then number of sorted sets, and for each: score (empty:
--   remove), member; then the events and audit entries
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'grant'} | {'conflict'}
if not granted(KEYS[1], ARGV[2]) then return {'grant'} end
local seen = remembered(KEYS[2], ARGV[1], ARGV[3])
if seen then return seen end
if redis.call('HGET', KEYS[9], 'op') == ARGV[1] then return {'done'} end
if conflicting(9, 8) then return {'conflict'} end

if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
local key, at = put_objects(9, 8)
redis.call('HSET', KEYS[9], 'op', ARGV[1])
local sets = tonumber(ARGV[at])
at = at + 1
for i = 0, sets - 1 do
  if ARGV[at] == '' then
    redis.call('ZREM', KEYS[key + i], ARGV[at + 1])
  else
    redis.call('ZADD', KEYS[key + i], ARGV[at], ARGV[at + 1])
  end
  at = at + 2
end
append_all(KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], at)
if ARGV[6] ~= '' then
  note_change(KEYS[8], ARGV[7])
  redis.call('PUBLISH', ARGV[6], ARGV[7])
end
return {'written'}
