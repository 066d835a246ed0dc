-- Puts another text in the place of a packed segment: with fewer entries, with some of them
-- written anew, or none, which removes it.
-- KEYS: directory, segment, rewritten
-- ARGV: first, digest, text, anew
-- first is the segment's id in the directory, digest the SHA-1 of the text that was read,
-- empty where there was none; text is empty where nothing is left. anew is 1 where entries
-- are written anew, which those who keep the segment in memory learn by the count.
-- Returns: {'replaced'} | {'other'}
local is = redis.call('GET', segment)
if (is and redis.sha1hex(is) or '') ~= digest then return {'other'} end
if anew == '1' then redis.call('INCR', rewritten) end
if text ~= '' then
  redis.call('SET', segment, text)
  return {'replaced'}
end
redis.call('UNLINK', segment)
redis.call('XDEL', directory, first)
if redis.call('XLEN', directory) == 0 then redis.call('UNLINK', directory) end
return {'replaced'}
