-- Writes an organization's configuration, all of it or nothing. Each object
-- is written only if it still has the revision that the change was computed
-- from. The tokens that the change ends, end with it; of so many that a script
-- cannot end them all, notes are left of whose they are.
-- KEYS: 1 sequences, 2 events, 3 audit, 4 dispatch, 5 webhooks,
--   6 organizations of the partition, 7 cutoffs, 8 changes, 9 the operation's
--   mark, 10 notes of tokens to end, then the hashes, the strings of immutable
--   versions, and the grants whose tokens end
-- ARGV: 1 channel, 2 organization, 3 notes to leave, separated by spaces, then
--   the objects, the events and audit entries, and the cutoffs members of
--   accounts to look at
-- Returns: {'written'} | {'done'} | {'conflict'}
if earlier(KEYS[9]) then return {'done'} end
if conflicting(11, 4) then return {'conflict'} end

mark_done(KEYS[9], '')
redis.call('SADD', KEYS[6], ARGV[2])
local key, at = put_objects(11, 4)
raise(key)
for note in string.gmatch(ARGV[3], '%S+') do redis.call('SADD', KEYS[10], note) end
for i = append_all(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], at), #ARGV do
  redis.call('ZADD', KEYS[7], 'XX', '0', ARGV[i])
end
note_change(KEYS[8], ARGV[2])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'written'}
