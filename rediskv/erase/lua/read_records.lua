-- Reads all records of a payment at one moment, and a digest of each.
-- KEYS: payment
-- ARGV: kinds
-- KEYS goes on with further records. kinds has a letter for each of KEYS: h for a hash, s for
-- a string.
-- Returns: {'read', {content, digest}, …}, the content of what is not there is empty; nothing
--   but {'read'} without the payment
if redis.call('EXISTS', payment) == 0 then return {'read'} end
local found = {'read'}
for i = 1, #KEYS do
  if string.sub(kinds, i, i) == 'h' then
    local content = redis.call('HGETALL', KEYS[i])
    found[i + 1] = {content, redis.sha1hex(table.concat(content, ' '))}
  else
    local content = redis.call('GET', KEYS[i]) or ''
    found[i + 1] = {content, redis.sha1hex(content)}
  end
end
return found
