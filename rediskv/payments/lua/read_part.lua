-- Reads a document of a payment, such as its ticket or a capture: it is a string, or
-- stands in the hash of the payment's parts, in part_field (empty: it never does).
-- KEYS: grant, part, parts
-- ARGV: grant_version, part_field
-- Returns: {'read', value} | {'missing'} | {'grant'}
if not granted(grant, grant_version) then return {'grant'} end
local text = redis.call('GET', part)
if not text and part_field ~= '' then text = redis.call('HGET', parts, part_field) end
if not text then return {'missing'} end
return {'read', text}
