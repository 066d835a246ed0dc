-- Reads a range of events in either direction and keeps those that match.
-- KEYS: grant, events
-- ARGV: grant_version, command, first, last, count, types, accounts, named_id, resumed
-- command is XRANGE or XREVRANGE. types and accounts are between commas; empty
-- means all. named_id is one that the event must name (or empty), resumed the place
-- of an entry that is returned as well (or empty).
-- Returns: {'read', matching entries, number of entries looked at, the last
--   entry looked at, the resumed one} | {'grant'}
if not granted(grant, grant_version) then return {'grant'} end
local entries = redis.call(command, events, first, last, 'COUNT', count)
local found = {}
for _, entry in ipairs(entries) do
  local f = entry[2] -- i, id, t, type, a, account, b, body
  if (types == '' or string.find(types, ',' .. f[4] .. ',', 1, true)) and
     (accounts == '' or string.find(accounts, ',' .. f[6] .. ',', 1, true)) and
     (named_id == '' or string.find(f[8], '"' .. named_id .. '"', 1, true)) then
    found[#found + 1] = entry
  end
end
local there = resumed ~= '' and redis.call('XRANGE', events, resumed, resumed)[1] or false
return {'read', found, #entries, entries[#entries] or false, there}
