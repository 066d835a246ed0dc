-- Reads the next members of several indexes at one moment: a transaction that
-- changes its status while they are read is in exactly one of them.
-- KEYS: grant, events
-- ARGV: grant_version, command, from, to, count, after_ms, before_ms
-- command is ZRANGEBYSCORE or ZREVRANGEBYSCORE. KEYS goes on with the indexes. What
-- was made before after_ms, or behind before_ms, by the clock of Redis, is passed
-- over (empty: nothing is). The log of events has the places: an event's sequence
-- stands in front of all that is not ours.
-- Returns: {'read', the first event behind after_ms, the last one before before_ms,
--   {member, position, …}, …} | {'grant'}; false for an event that bounds nothing
if not granted(grant, grant_version) then return {'grant'} end
local function place(entry)
  local sequence = entry and entry[2][8] and string.match(entry[2][8], '"sequence":(%d+)')
  return sequence and tonumber(sequence) * 16
end
local first, last
if after_ms ~= '' then
  first = redis.call('XRANGE', events, after_ms, '+', 'COUNT', '1')[1]
  local oldest = redis.call('XRANGE', events, '-', '+', 'COUNT', '1')[1]
  if first and oldest[1] == first[1] then first = nil end -- what came before may have been trimmed
end
if before_ms ~= '' then last = redis.call('XREVRANGE', events, before_ms, '-', 'COUNT', '1')[1] end
local low, high = place(first), place(last)
local up = command == 'ZRANGEBYSCORE'
local least, most = tonumber(up and from or to), tonumber(up and to or from)
if low then least = math.max(least, low) end
if high then most = math.min(most, high + 15) end
least, most = whole(least), whole(most)
local found = {'read', low and first or false, high and last or false}
for i = named_keys + 1, #KEYS do
  found[#found + 1] = redis.call(command, KEYS[i], up and least or most, up and most or least, 'WITHSCORES', 'LIMIT', '0', count)
end
return found
