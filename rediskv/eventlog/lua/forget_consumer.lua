-- Removes a worker from the group of a stream, unless it has entries in its
-- hands: nobody would find those.
-- KEYS: stream
-- ARGV: group, consumer
-- Returns: {'forgotten'} | {'busy'}
if #redis.call('XPENDING', stream, group, '-', '+', '1', consumer) > 0 then return {'busy'} end

redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer)
return {'forgotten'}
