-- Writes an organization's configuration, all of it or nothing. Each object
-- is written only if it still has the revision that the change was computed
-- from. The tokens that the change ends, end with it; of so many that a script
-- cannot end them all, notes are left of whose they are.
-- KEYS: sequences, events, audit, dispatch, webhooks, organizations, cutoffs, changes, mark,
--   notes
-- ARGV: channel, organization, note_list
-- note_list is separated by spaces. Then the objects (conflicting), the events and
-- audit entries (append_all); KEYS goes on with the grants whose tokens end, ARGV
-- with the cutoffs members of accounts to look at.
-- Returns: {'written'} | {'done'} | {'conflict'}
if earlier(mark) then return {'done'} end
if conflicting(named_keys + 1, named_args + 1) then return {'conflict'} end

mark_done(mark, '')
redis.call('SADD', organizations, organization)
local key, at = put_objects(named_keys + 1, named_args + 1)
raise(key)
for note in string.gmatch(note_list, '%S+') do redis.call('SADD', notes, note) end
for i = append_all(sequences, events, audit, dispatch, webhooks, at), #ARGV do
  redis.call('ZADD', cutoffs, 'XX', '0', ARGV[i])
end
note_change(changes, organization)
redis.call('PUBLISH', channel, organization)
return {'written'}
