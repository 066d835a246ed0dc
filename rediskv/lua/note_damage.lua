-- Notes that a stored object cannot be read, and tells of it by an event: once,
-- however often it is read, by whomever.
-- KEYS: 1 damaged objects, 2 sequences, 3 events, 4 dispatch, 5 webhooks
-- ARGV: 1 object, 2 now (ms), 3 event head, 4 event tail, 5 event id,
--   6 event type, 7 event account
-- Returns: {'noted'} | {'known'}
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return {'known'} end
append_event(KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
return {'noted'}
