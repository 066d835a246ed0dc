-- Adds a line to the manifest of the packs of a partition's logs, and writes down what packs
-- have of each log now. Behind another worker it is too late.
-- KEYS: manifest
-- ARGV: number, line
-- KEYS goes on with two for each log: what packs have of it, and how often its entries were
-- written anew. ARGV goes on with three for each: what was there (empty: nothing), what is to
-- be, and how often the entries were written anew before they were read.
-- Returns: {'added'} | {'conflict'}
local there = redis.call('HGET', manifest, number)
if there then return {there == line and 'added' or 'conflict'} end
if tonumber(redis.call('HGET', manifest, 'n') or '0') + 1 ~= tonumber(number) then return {'conflict'} end
local logs = (#KEYS - named_keys) / 2
for i = 0, logs - 1 do
  if (redis.call('GET', KEYS[named_keys + 2 * i + 1]) or '') ~= ARGV[named_args + 3 * i + 1] then return {'conflict'} end
  if (redis.call('GET', KEYS[named_keys + 2 * i + 2]) or '') ~= ARGV[named_args + 3 * i + 3] then return {'conflict'} end
end
redis.call('HSET', manifest, 'n', number, number, line)
for i = 0, logs - 1 do
  redis.call('SET', KEYS[named_keys + 2 * i + 1], ARGV[named_args + 3 * i + 2])
end
return {'added'}
