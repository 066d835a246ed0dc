-- Notes that a stored object cannot be read, and tells of it by an event: once,
-- however often it is read, by whomever.
-- KEYS: damaged, sequences, events, dispatch, webhooks
-- ARGV: object, now_ms, event_head, event_tail, event_id, event_type, event_account, event_envelope
-- Returns: {'noted', revision} | {'known'}
if redis.call('HSETNX', damaged, object, now_ms) == 0 then return {'known'} end
append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account, event_envelope)
return revised(sequences, {'noted'})
