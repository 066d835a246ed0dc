-- Puts what is kept of a tile in its place, whose hashes can be made again. A run that finds
-- its own work has done so before.
-- KEYS: tile
-- ARGV: before, after
-- Returns: {'forgotten'} | {'conflict'}
local is = redis.call('GET', tile)
if is ~= after then
  if is ~= before then return {'conflict'} end
  redis.call('SET', tile, after)
end
return {'forgotten'}
