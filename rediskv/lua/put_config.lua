-- Writes an organization's configuration, all of it or nothing. Each object
-- is written only if it still has the revision that the change was computed
-- from.
-- KEYS: 1 sequences, 2 events, 3 audit, 4 dispatch, 5 webhooks,
--   6 organizations of the partition, 7 cutoffs, 8 changes, then the hashes,
--   then the strings of immutable versions
-- ARGV: 1 channel, 2 organization, 3 operation, then the objects, the events
--   and audit entries, and the cutoffs members of accounts to look at
-- Returns: {'written'} | {'done'} | {'conflict'}
if redis.call('HGET', KEYS[1], 'config') == ARGV[3] then return {'done'} end
if conflicting(9, 4) then return {'conflict'} end

redis.call('HSET', KEYS[1], 'config', ARGV[3])
redis.call('SADD', KEYS[6], ARGV[2])
local _, at = put_objects(9, 4)
for i = append_all(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], at), #ARGV do
  redis.call('ZADD', KEYS[7], 'XX', '0', ARGV[i])
end
note_change(KEYS[8], ARGV[2])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'written'}
