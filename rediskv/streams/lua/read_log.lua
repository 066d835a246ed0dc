-- Reads a range of a log in either direction and keeps the entries that match. The
-- newest are in the log's own stream, what is older in segments (package streams).
-- KEYS: grant, rate, log, directory
-- ARGV: grant_version, rate_limit, command, first, last, count, types, accounts, named_id, resumed
-- command is XRANGE or XREVRANGE. first and last are whole ids, or - and +. types and
-- accounts are between commas; empty means all. named_id is one that the entry must
-- name (or empty), resumed the place of an entry that is returned as well (or empty), or -
-- of the first one of the log, if first is - as well.
-- KEYS goes on with segments, in the order in which they are read: those that an
-- answer 'older' has named. Who reads them filters, and goes on where it is told.
-- Returns: {'read', matching entries, number of entries looked at, the last
--   entry looked at, the resumed one} | {'older', the first ids of the segments to be
--   read} | {'parts', the resumed one, {{the first id of a segment, or '' of the head,
--   a packed segment or entries of the range}, …}, the id where there is more}
--   | {'grant'} | {'limited'}
local refused = turned_away(grant, grant_version, rate, rate_limit)
if refused then return refused end
local up, wanted = command == 'XRANGE', tonumber(count)
local found, looked, at, there = {}, 0, false, false

local function resume(stream)
  if resumed ~= '' and not there then
    there = redis.call('XRANGE', stream, resumed, resumed == '-' and '+' or resumed, 'COUNT', '1')[1] or false
  end
end

local function take(stream)
  resume(stream)
  for _, entry in ipairs(redis.call(command, stream, first, last, 'COUNT', whole(wanted - looked))) do
    looked, at = looked + 1, entry
    local f = entry[2] -- of an event: i, id, t, type, a, account, b, body
    if (types == '' or string.find(types, ',' .. f[4] .. ',', 1, true)) and
       (accounts == '' or string.find(accounts, ',' .. f[6] .. ',', 1, true)) and
       (named_id == '' or string.find(f[8], '"' .. named_id .. '"', 1, true)) then
      found[#found + 1] = entry
    end
  end
end

-- Whether the head reaches back to where the range begins.
local function reaches()
  local low = up and first or last
  return low ~= '-' and #redis.call('XRANGE', log, '-', low, 'COUNT', '1') == 1
end

-- The segments that have what is wanted, as far as their counts say so.
local function listed()
  local list, counted = {}, nil
  local function more(entries)
    for _, entry in ipairs(entries) do
      list[#list + 1] = entry[1]
      local n = tonumber(entry[2][2]) or 0
      if #list == (up and 1 or 2) then counted = n end
      if counted and math.abs(n - counted) >= wanted then return end
    end
  end
  if not up then
    more(redis.call('XREVRANGE', directory, first, '-', 'COUNT', '16'))
    return list
  end
  local from = resumed ~= '' and resumed or first
  if from ~= '-' then
    more(redis.call('XREVRANGE', directory, from, '-', 'COUNT', '1'))
    from = '(' .. from
  end
  more(redis.call('XRANGE', directory, from, last, 'COUNT', '16'))
  return list
end

if #KEYS == named_keys then
  if not up then take(log) end
  local list = {}
  if (up or looked < wanted) and not reaches() then list = listed() end
  if #list > 0 then return {'older', list} end
  if up then take(log) end
  return {'read', found, looked, at, there}
end

local parts = {}
local function part(id, stream)
  local content
  if id ~= '' and redis.call('TYPE', stream).ok == 'string' then
    content = redis.call('GET', stream)
  else
    resume(stream)
    content = redis.call(command, stream, first, last, 'COUNT', count)
  end
  parts[#parts + 1] = {id, content}
end
local function id_of(segment) return string.sub(segment, #log + 2) end

-- Entries go from the log into a new segment: what was named may not be all any more.
if not up then
  local newest = redis.call('XREVRANGE', directory, first, '-', 'COUNT', '1')[1]
  if newest and newest[1] ~= id_of(KEYS[named_keys + 1]) then return {'older', listed()} end
  part('', log)
end
for i = named_keys + 1, #KEYS do part(id_of(KEYS[i]), KEYS[i]) end
local final, more = id_of(KEYS[#KEYS]), nil
if up then
  more = redis.call('XRANGE', directory, '(' .. final, last, 'COUNT', '1')[1]
  if not more then part('', log) end
  return {'parts', there, parts, more and more[1] or false}
end
more = redis.call('XREVRANGE', directory, '(' .. final, '-', 'COUNT', '1')[1]
return {'parts', there, parts, more and final or false}
