-- Removes the entries of a segment that are older than a moment, and the segment when
-- none is left. One that is not there although its entries are to be kept stays in the
-- directory: a check finds it.
-- KEYS: directory, segment
-- ARGV: first, until_id
-- first is the segment's id in the directory.
-- Returns: {'trimmed', number of entries removed, number of those left}
local removed = redis.call('XTRIM', segment, 'MINID', until_id)
local left = redis.call('XLEN', segment)
if left == 0 and #redis.call('XRANGE', directory, first, '(' .. until_id) > 0 then
  redis.call('UNLINK', segment)
  redis.call('XDEL', directory, first)
  if redis.call('XLEN', directory) == 0 then redis.call('UNLINK', directory) end
end
return {'trimmed', removed, left}
