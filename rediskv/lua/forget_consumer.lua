-- Removes a worker from the group of a stream, unless it has entries in its
-- hands: nobody would find those.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer
-- Returns: {'forgotten'} | {'busy'}
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', '1', ARGV[2]) > 0 then return {'busy'} end

redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return {'forgotten'}
