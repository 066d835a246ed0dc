-- Puts the oldest entries of a log, as a reader has packed them, into a segment of their
-- own and enters it in the directory: by the id of its first entry, how many entries have
-- ever gone into segments up to its end, and the id of its last one. Entries do not change,
-- unless they are written anew, which the count says: while the first and the last are there,
-- so are those between them.
-- KEYS: log, directory, segment, rewritten
-- ARGV: first, last, count, text, times
-- times is how often entries of the log were written anew before they were read.
-- Returns: {'cut', the id of the first entry that stays} | {'other', the id of the first
--   one in the log, or false} | {'few'}
local head = redis.call('XRANGE', log, '-', '+', 'COUNT', '1')[1]
if not head or head[1] ~= first then return {'other', head and head[1] or false} end
local stays = redis.call('XRANGE', log, '(' .. last, '+', 'COUNT', '1')[1]
if (redis.call('GET', rewritten) or '') ~= times then return {'few'} end
if not stays or #redis.call('XRANGE', log, last, last) == 0 then return {'few'} end
if #redis.call('XRANGE', directory, first, '+', 'COUNT', '1') > 0 then return {'few'} end -- a check says so

local newest = redis.call('XREVRANGE', directory, '+', '-', 'COUNT', '1')[1]
local before = newest and tonumber(newest[2][2]) or 0
redis.call('SET', segment, text)
redis.call('XADD', directory, first, 'n', whole(before + tonumber(count)), 'l', last)
redis.call('XTRIM', log, 'MINID', stays[1])
return {'cut', stays[1]}
