-- Reads a payment and its ticket at one moment.
-- KEYS: grant, rate, payment, ticket
-- ARGV: grant_version, rate_limit
-- Returns: {'read', {field, value, …}, ticket} | {'missing'} | {'grant'} | {'limited'}
local refused = turned_away(grant, grant_version, rate, rate_limit)
if refused then return refused end
local fields = redis.call('HGETALL', payment)
if #fields == 0 then return {'missing'} end
return {'read', fields, redis.call('GET', ticket)}
