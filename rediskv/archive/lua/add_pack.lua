-- Adds a line to the manifest of a partition's archive, notes of which places it has the lists
-- of organizations, and moves along how far their payments have been looked at. Behind another
-- worker it is too late.
-- KEYS: archive, fence
-- ARGV: number, line, erased, raise
-- number is that of the line; one that is empty adds none, and holds while number is the
-- last one. erased is what fence had before the payments were read, empty for nothing; raise
-- is 1 for a line that has some of them erased. KEYS goes on with what is archived of
-- organizations, ARGV with two for each: the place up to which they have been looked at, and
-- the span of its lists that the line has, "-" if nobody uses them; empty without one.
-- Returns: {'added'} | {'conflict'}
local last = redis.call('HGET', archive, 'n') or '0'
local there = line ~= '' and redis.call('HGET', archive, number)
if there then return {there == line and 'added' or 'conflict'} end
if (redis.call('GET', fence) or '') ~= erased then return {'conflict'} end
if line ~= '' then
  if tonumber(last) + 1 ~= tonumber(number) then return {'conflict'} end
  redis.call('HSET', archive, 'n', number, number, line, 'done', whole(number - 1))
elseif last ~= number then
  return {'conflict'}
end
if raise == '1' then redis.call('INCR', fence) end
for i = named_keys + 1, #KEYS do
  local at = named_args + 2 * (i - named_keys) - 1
  if ARGV[at] ~= '' then redis.call('HSET', KEYS[i], 'through', ARGV[at]) end
  if line ~= '' and ARGV[at + 1] ~= '' then redis.call('HSET', KEYS[i], number, ARGV[at + 1]) end
end
return {'added'}
