-- Moves the oldest entries of a log into a segment of its own, with their ids, and
-- enters it in the directory: by the id of its first entry, and how many entries have
-- ever gone into segments up to its end. What is too little for a segment stays. A
-- run that finds another first entry than it was told is too late: the one before it,
-- or another worker, has done its work.
-- KEYS: log, directory, segment
-- ARGV: first, stays, most_entries, most_bytes
-- stays is the id of the first entry that stays in any case.
-- Returns: {'cut', number of entries, the id of the first one in the log} | {'other',
--   the same id, or false} | {'few'}
local head = redis.call('XRANGE', log, '-', '+', 'COUNT', '1')[1]
if not head or head[1] ~= first then return {'other', head and head[1] or false} end
if #redis.call('XRANGE', directory, first, '+', 'COUNT', '1') > 0 then return {'few'} end -- a check says so

local moved, bytes, next_id = {}, 0, nil
local from = '-'
repeat
  local page = redis.call('XRANGE', log, from, '+', 'COUNT', '16')
  for _, entry in ipairs(page) do
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
    if #moved == tonumber(most_entries) or #moved > 0 and bytes > tonumber(most_bytes) then
      next_id = entry[1]
      break
    end
    if entry[1] == stays then return {'few'} end
    moved[#moved + 1] = entry
  end
  from = '(' .. moved[#moved][1]
until next_id or #page < 16
if not next_id then return {'few'} end

local newest = redis.call('XREVRANGE', directory, '+', '-', 'COUNT', '1')[1]
local before = newest and tonumber(newest[2][2]) or 0
redis.call('UNLINK', segment) -- the directory does not name it
for _, entry in ipairs(moved) do redis.call('XADD', segment, entry[1], unpack(entry[2])) end
redis.call('XADD', directory, first, 'n', whole(before + #moved))
redis.call('XTRIM', log, 'MINID', next_id)
return {'cut', #moved, next_id}
