-- Reads a payment and its ticket at one moment.
-- KEYS: 1 grant, 2 payment, 3 ticket
-- ARGV: 1 grant version
-- Returns: {'read', {field, value, …}, ticket} | {'missing'} | {'grant'}
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
local payment = redis.call('HGETALL', KEYS[2])
if #payment == 0 then return {'missing'} end
return {'read', payment, redis.call('GET', KEYS[3])}
