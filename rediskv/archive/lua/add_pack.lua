-- Adds a line to the manifest of a partition's archive, and moves along how far the
-- payments of organizations have been looked at. Behind another worker it is too late.
-- KEYS: archive
-- ARGV: number, line
-- number is that of the line; one that is empty adds none, and holds while number is the
-- last one. KEYS goes on with the progress of organizations, ARGV with the place of each.
-- Returns: {'added'} | {'conflict'}
local last = redis.call('HGET', archive, 'n') or '0'
if line ~= '' then
  local there = redis.call('HGET', archive, number)
  if there then return {there == line and 'added' or 'conflict'} end
  if tonumber(last) + 1 ~= tonumber(number) then return {'conflict'} end
  redis.call('HSET', archive, 'n', number, number, line, 'done', whole(number - 1))
elseif last ~= number then
  return {'conflict'}
end
for i = named_keys + 1, #KEYS do
  redis.call('HSET', KEYS[i], 'through', ARGV[named_args + i - named_keys])
end
return {'added'}
