-- Ends the tokens of some grants, and tells instances.
-- KEYS: mark, changes
-- ARGV: channel, organization
-- KEYS goes on with the grants.
-- Returns: {'ended'} | {'done'}
if earlier(mark) then return {'done'} end

mark_done(mark, '')
raise(named_keys + 1)
note_change(changes, organization)
redis.call('PUBLISH', channel, organization)
return {'ended'}
