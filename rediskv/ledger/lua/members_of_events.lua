-- Reads the transactions of some events that are in one of several indexes, at one moment.
-- KEYS: grant, rate, archived
-- ARGV: grant_version, rate_limit, most
-- most is the place of the last one of an event, 0 to 15. KEYS goes on with the indexes,
-- ARGV with the numbers of the events.
-- Returns: {'read', the fields of archived, member, position, …} | {'grant'} | {'limited'}
local refused = turned_away(grant, grant_version, rate, rate_limit)
if refused then return refused end
local found, indexes = {'read', redis.call('HLEN', archived)}, {}
for key = named_keys + 1, #KEYS do
  if redis.call('EXISTS', KEYS[key]) == 1 then indexes[#indexes + 1] = KEYS[key] end
end
for i = named_args + 1, #ARGV do
  local first = tonumber(ARGV[i]) * 16
  for _, index in ipairs(indexes) do
    for _, one in ipairs(redis.call('ZRANGEBYSCORE', index, whole(first), whole(first + tonumber(most)), 'WITHSCORES')) do
      found[#found + 1] = one
    end
  end
end
return found
