-- Reads all that is stored of payments, each at one moment, and a digest of it.
-- KEYS: archive
-- ARGV: count
-- KEYS goes on with three for each of count payments: the payment, its ticket, its parts.
-- Returns: {'read', the last line of the manifest,
--   {{field, value, …}, text, {field, value, …}, digest}, …}
local found = {'read', redis.call('HGET', archive, 'n') or '0'}
for i = 1, tonumber(count) do
  local at = named_keys + 3 * i - 2
  local payment, ticket, parts = redis.call('HGETALL', KEYS[at]), redis.call('GET', KEYS[at + 1]), redis.call('HGETALL', KEYS[at + 2])
  found[i + 2] = {payment, ticket or '', parts, content_digest(payment, ticket or '', parts)}
end
return found
