-- Ends the tokens of some grants, and tells instances.
-- KEYS: 1 the operation's mark, 2 changes, then the grants
-- ARGV: 1 channel, 2 organization
-- Returns: {'ended'} | {'done'}
if earlier(KEYS[1]) then return {'done'} end

mark_done(KEYS[1], '')
raise(3)
note_change(KEYS[2], ARGV[2])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {'ended'}
