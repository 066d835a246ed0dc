-- Puts the seal of another secret key in the place of the one that was read, and says
-- since when it is there. Run again after a lost reply it finds what it has written.
-- KEYS: meta
-- ARGV: before, after, secret_key, at
-- Returns: {'replaced'} | {'conflict'}
local is = redis.call('HGET', meta, 'seal') or ''
if is ~= after then
  if is ~= before then return {'conflict'} end
  redis.call('HSET', meta, 'seal', after, 'sealed_by', secret_key, 'sealed_at', at)
end
return {'replaced'}
