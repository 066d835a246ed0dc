-- Adds a line to the manifest of the packs of a partition's logs, and writes down what packs
-- have of each log now. Behind another worker it is too late.
-- KEYS: manifest
-- ARGV: number, line
-- KEYS goes on with what packs have of each log, ARGV with two for each: what was there
-- (empty: nothing), and what is to be.
-- Returns: {'added'} | {'conflict'}
local there = redis.call('HGET', manifest, number)
if there then return {there == line and 'added' or 'conflict'} end
if tonumber(redis.call('HGET', manifest, 'n') or '0') + 1 ~= tonumber(number) then return {'conflict'} end
for i = named_keys + 1, #KEYS do
  if (redis.call('GET', KEYS[i]) or '') ~= ARGV[named_args + 2 * (i - named_keys) - 1] then return {'conflict'} end
end
redis.call('HSET', manifest, 'n', number, number, line)
for i = named_keys + 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[named_args + 2 * (i - named_keys)])
end
return {'added'}
