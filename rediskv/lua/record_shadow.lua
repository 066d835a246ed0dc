-- Adds to what a shadow has compared, and to its list of divergences, which
-- keeps the latest.
-- KEYS: 1 shadow, 2 totals, 3 divergences
-- ARGV: 1 operation, 2 field of the instance's last operation, 3 most
--   divergences, 4 number of totals, for each: field, by how much; then the
--   divergences
-- Returns: {'recorded'} | {'done'} | {'missing'}
if redis.call('EXISTS', KEYS[1]) == 0 then return {'missing'} end
if redis.call('HGET', KEYS[2], ARGV[2]) == ARGV[1] then return {'done'} end

redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
local at = 5
for i = 1, tonumber(ARGV[4]) do
  redis.call('HINCRBY', KEYS[2], ARGV[at], ARGV[at + 1])
  at = at + 2
end
for i = at, #ARGV do
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], '*', 'b', ARGV[i])
end
return {'recorded'}
