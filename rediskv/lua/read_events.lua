-- Reads a range of events in either direction.
-- KEYS: 1 grant, 2 events
-- ARGV: 1 grant version, 2 XRANGE or XREVRANGE, 3 first, 4 last, 5 count
-- Returns: {'read', entries} | {'grant'}
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
return {'read', redis.call(ARGV[2], KEYS[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])}
