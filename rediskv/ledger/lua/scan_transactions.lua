-- Reads the next members of several indexes at one moment: a transaction that
-- changes its status while they are read is in exactly one of them.
-- KEYS: grant
-- ARGV: grant_version, command, from, to, count
-- command is ZRANGEBYSCORE or ZREVRANGEBYSCORE. KEYS goes on with the indexes.
-- Returns: {'read', {member, position, …}, …} | {'grant'}
if not granted(grant, grant_version) then return {'grant'} end
local found = {'read'}
for i = named_keys + 1, #KEYS do
  found[#found + 1] = redis.call(command, KEYS[i], from, to, 'WITHSCORES', 'LIMIT', '0', count)
end
return found
