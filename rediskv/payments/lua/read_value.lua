-- Reads a string, such as a ticket.
-- KEYS: grant, value
-- ARGV: grant_version
-- Returns: {'read', value} | {'missing'} | {'grant'}
if not granted(grant, grant_version) then return {'grant'} end
local text = redis.call('GET', value)
if not text then return {'missing'} end
return {'read', text}
