-- Removes from some lists the postings of the events up to one, as long as the state says that
-- they are read in the archive.
-- KEYS: postings
-- ARGV: upto
-- KEYS goes on with the lists.
-- Returns: {'dropped'} | {'conflict'}
local cold = tonumber(string.match(redis.call('GET', postings) or '', '"cold":(%d+)') or '0')
if cold < tonumber(upto) then return {'conflict'} end
for i = named_keys + 1, #KEYS do
  local list = KEYS[i]
  local has = postings_in(list)
  local first = has > 0 and first_posting(list, upto + 1) or 0
  if first > 0 and first == has then
    redis.call('UNLINK', list)
  elseif first > 0 then
    redis.call('SET', list, redis.call('GETRANGE', list, whole(first * 8), '-1'))
  end
end
return {'dropped'}
