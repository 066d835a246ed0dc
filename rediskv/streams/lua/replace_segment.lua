-- Puts what is left of a packed segment in its place, or removes it. A segment changes only
-- by having fewer entries, so that their count says whether it is the one that was read.
-- KEYS: directory, segment
-- ARGV: first, count, text
-- first is the segment's id in the directory; text is empty where nothing is left.
-- Returns: {'replaced'} | {'other'}
local is = redis.call('GET', segment)
if (is and string.match(is, '^%d+;(%d+);') or '0') ~= count then return {'other'} end
if text ~= '' then
  redis.call('SET', segment, text)
  return {'replaced'}
end
redis.call('UNLINK', segment)
redis.call('XDEL', directory, first)
if redis.call('XLEN', directory) == 0 then redis.call('UNLINK', directory) end
return {'replaced'}
