-- Reads a payment and its ticket at one moment.
-- KEYS: grant, payment, ticket
-- ARGV: grant_version
-- Returns: {'read', {field, value, …}, ticket} | {'missing'} | {'grant'}
if not granted(grant, grant_version) then return {'grant'} end
local fields = redis.call('HGETALL', payment)
if #fields == 0 then return {'missing'} end
return {'read', fields, redis.call('GET', ticket)}
