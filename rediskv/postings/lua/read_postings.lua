-- Reads the postings of some values that come next behind an event, at one moment.
-- KEYS: grant, rate, postings
-- ARGV: grant_version, rate_limit, descending, bound, most
-- Those before the event bound if descending is 1, else those behind it, and up to most of
-- each value's lists. For each value follows in ARGV how many lists it has; KEYS goes on
-- with these, the one of bound first.
-- Returns: {'read', the state or '', {1 if this is all, part of a list, …}, …} | {'grant'} | {'limited'}
local refused = turned_away(grant, grant_version, rate, rate_limit)
if refused then return refused end
local down, from = descending == '1', tonumber(bound)
local found, key = {'read', redis.call('GET', postings) or ''}, named_keys
for value = named_args + 1, #ARGV do
  local left, parts = tonumber(most), {'1'}
  local lists = tonumber(ARGV[value])
  for i = 1, lists do
    local list = KEYS[key + i]
    local first, behind = 0, postings_in(list)
    if i == 1 and down then behind = first_posting(list, from) end
    if i == 1 and not down then first = first_posting(list, from + 1) end
    if behind - first > left then
      if down then first = behind - left else behind = first + left end
      parts[1] = '0'
    end
    if behind > first then parts[#parts + 1] = redis.call('GETRANGE', list, whole(first * 8), whole(behind * 8 - 1)) end
    left = left - (behind - first)
    if parts[1] == '0' then break end
    if left == 0 and i < lists then
      parts[1] = '0'
      break
    end
  end
  key = key + lists
  found[#found + 1] = parts
end
return found
