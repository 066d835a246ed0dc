-- Reads a range of events in either direction and keeps those that match.
-- KEYS: 1 grant, 2 events
-- ARGV: 1 grant version, 2 XRANGE or XREVRANGE, 3 first, 4 last, 5 count,
--   6 types between commas (empty: all), 7 accounts between commas (empty:
--   all), 8 an id that the event must name (or empty)
-- Returns: {'read', matching entries, number of entries looked at, the last
--   entry looked at} | {'grant'}
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
local entries = redis.call(ARGV[2], KEYS[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local found = {}
for _, entry in ipairs(entries) do
  local f = entry[2] -- i, id, t, type, a, account, b, body
  if (ARGV[6] == '' or string.find(ARGV[6], ',' .. f[4] .. ',', 1, true)) and
     (ARGV[7] == '' or string.find(ARGV[7], ',' .. f[6] .. ',', 1, true)) and
     (ARGV[8] == '' or string.find(f[8], '"' .. ARGV[8] .. '"', 1, true)) then
    found[#found + 1] = entry
  end
end
return {'read', found, #entries, entries[#entries] or false}
