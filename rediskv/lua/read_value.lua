-- Reads a string, such as a ticket.
-- KEYS: 1 grant, 2 value
-- ARGV: 1 grant version
-- Returns: {'read', value} | {'missing'} | {'grant'}
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
local value = redis.call('GET', KEYS[2])
if not value then return {'missing'} end
return {'read', value}
