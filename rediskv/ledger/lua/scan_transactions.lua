-- Reads the next members of several indexes at one moment: a transaction that
-- changes its status while they are read is in exactly one of them.
-- KEYS: grant, rate, events, directory, postings, archived
-- ARGV: grant_version, rate_limit, command, from, to, count, after_ms, before_ms
-- command is ZRANGEBYSCORE or ZREVRANGEBYSCORE. KEYS goes on with the indexes. What
-- was made before after_ms, or behind before_ms, by the clock of Redis, is passed
-- over (empty: nothing is). The log of events has the places: an event's sequence
-- stands in front of all that is not ours. Where the log is in segments (package streams)
-- by then, whoever asks reads the place there. postings is events where nobody asks for
-- their state. The fields of archived are counted at the same moment: what an index lacks
-- because it was archived is in one of these.
-- Returns: {'older', the directory's entry of the segment with after_ms, that with
--   before_ms} | {'read', the fields of archived, the state of the postings or '', the first event behind
--   after_ms, the last one before before_ms, {member, position, …}, …} | {'grant'}
--   | {'limited'}; false for an event that bounds nothing, and for a segment not needed
local refused = turned_away(grant, grant_version, rate, rate_limit)
if refused then return refused end
local function place(entry)
  local sequence = entry and entry[2][8] and string.match(entry[2][8], '"sequence":(%d+)')
  return sequence and tonumber(sequence) * 16
end
-- The last event up to a moment bounds as well as the first one behind it.
local function up_to(stream, ms) return redis.call('XREVRANGE', stream, ms, '-', 'COUNT', '1')[1] end
local first, last, after_at, before_at
if after_ms ~= '' then
  if #redis.call('XRANGE', events, '-', '(' .. after_ms .. '-0', 'COUNT', '1') == 1 then
    first = redis.call('XRANGE', events, after_ms, '+', 'COUNT', '1')[1]
  else
    after_at = up_to(directory, after_ms) -- if none, what came before may have been trimmed
  end
end
if before_ms ~= '' then
  last = up_to(events, before_ms)
  before_at = not last and up_to(directory, before_ms)
end
if after_at or before_at then return {'older', after_at or false, before_at or false} end
local low, high = place(first), place(last)
local up = command == 'ZRANGEBYSCORE'
local least, most = tonumber(up and from or to), tonumber(up and to or from)
if low then least = math.max(least, low) end
if high then most = math.min(most, high + 15) end
least, most = whole(least), whole(most)
local found = {'read', redis.call('HLEN', archived), postings ~= events and redis.call('GET', postings) or '', low and first or false, high and last or false}
for i = named_keys + 1, #KEYS do
  local some = redis.call(command, KEYS[i], up and least or most, up and most or least, 'WITHSCORES', 'LIMIT', '0', count)
  -- What a full index has not reached is not among the first ones of all of them.
  if #some == 2 * tonumber(count) then
    if up then most = some[#some] else least = some[#some] end
  end
  found[#found + 1] = some
end
return found
