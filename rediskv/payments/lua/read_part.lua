-- Reads a document of a payment, such as its ticket or a capture: it is a string, or
-- stands in the hash of the payment's parts, in part_field (empty: it never does).
-- KEYS: grant, rate, part, parts
-- ARGV: grant_version, rate_limit, part_field
-- Returns: {'read', value} | {'missing'} | {'grant'} | {'limited'}
local refused = turned_away(grant, grant_version, rate, rate_limit)
if refused then return refused end
local text = redis.call('GET', part)
if not text and part_field ~= '' then
  text = joined(redis.call('HMGET', parts, part_field, part_field .. '+', part_field .. '++', part_field .. '+++'), 1)
end
if not text then return {'missing'} end
return {'read', text}
