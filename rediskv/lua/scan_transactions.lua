-- Reads the next members of several indexes at one moment: a transaction that
-- changes its status while they are read is in exactly one of them.
-- KEYS: 1 grant, then the indexes
-- ARGV: 1 grant version, 2 ZRANGEBYSCORE or ZREVRANGEBYSCORE, 3 from, 4 to,
--   5 count
-- Returns: {'read', {member, position, …}, …} | {'grant'}
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
local found = {'read'}
for i = 2, #KEYS do
  found[i] = redis.call(ARGV[2], KEYS[i], ARGV[3], ARGV[4], 'WITHSCORES', 'LIMIT', '0', ARGV[5])
end
return found
