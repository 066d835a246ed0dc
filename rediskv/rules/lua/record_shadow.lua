-- Adds to what a shadow has compared, and to its list of divergences, which
-- keeps the latest.
-- KEYS: shadow, totals, divergences
-- ARGV: operation, instance_field, most_divergences, total_count
-- instance_field holds the instance's last operation. ARGV goes on with total_count
-- totals, for each: field, by how much; then the divergences, for each: JSON, envelope.
-- Returns: {'recorded'} | {'done'} | {'missing'}
if redis.call('EXISTS', shadow) == 0 then return {'missing'} end
if redis.call('HGET', totals, instance_field) == operation then return {'done'} end

redis.call('HSET', totals, instance_field, operation)
local at = named_args + 1
for i = 1, tonumber(total_count) do
  redis.call('HINCRBY', totals, ARGV[at], ARGV[at + 1])
  at = at + 2
end
for i = at, #ARGV, 2 do
  redis.call('XADD', divergences, 'MAXLEN', '~', most_divergences, '*', 'b', ARGV[i], 'e', ARGV[i + 1])
end
return {'recorded'}
