-- Writes rules, activations and the accounts that they move, all of it or
-- nothing. Each hash is written, or only compared, if it still has the revision
-- that the change was computed from.
-- KEYS: 1 grant, 2 idempotency record, 3 sequences, 4 events, 5 audit,
--   6 dispatch, 7 webhooks, 8 changes, 9 the operation's mark, then the hashes,
--   the strings of immutable versions, the sorted sets
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 channel (empty: nobody has to know), 7 organization, then
--   the objects; then number of sorted sets, and for each: score (empty:
--   remove), member; then the events and audit entries
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'conflict'}
local instead = answered(KEYS[1], ARGV[2], KEYS[2], ARGV[1], ARGV[3], KEYS[9])
if instead then return instead end
if conflicting(10, 8) then return {'conflict'} end

mark_done(KEYS[9], '')
if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
local key, at = put_objects(10, 8)
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
