-- Puts a document in the place of the one that was read, if that is still there. Each
-- document names the latest changes, so that one which is sent again finds itself, also
-- behind others.
-- KEYS: keyring
-- ARGV: change, before, after
-- Returns: {'replaced'} | {'conflict'}
local is = redis.call('GET', keyring) or ''
if not string.find(is, change, 1, true) then
  if is ~= before then return {'conflict'} end
  redis.call('SET', keyring, after)
end
return {'replaced'}
