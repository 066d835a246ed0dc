-- Says which entries of a log may go into segments: all before those that stay, of
-- which there are so many at most, with so many bytes, and one at least.
-- KEYS: log
-- ARGV: kept_entries, kept_bytes
-- Returns: {'planned', the first entry's id, the id of the first one that stays, how
--   many are before it} | {'none'}
local entries, bytes = 0, 0
local stays, below = nil, '+'
while entries < tonumber(kept_entries) do
  local page = redis.call('XREVRANGE', log, below, '-', 'COUNT', '16')
  for _, entry in ipairs(page) do
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
    if stays and (entries >= tonumber(kept_entries) or bytes > tonumber(kept_bytes)) then
      page = {}
      break
    end
    entries, stays = entries + 1, entry[1]
  end
  if #page < 16 then break end
  below = '(' .. stays
end
local first = redis.call('XRANGE', log, '-', '+', 'COUNT', '1')[1]
if not first or first[1] == stays then return {'none'} end
return {'planned', first[1], stays, redis.call('XLEN', log) - entries}
