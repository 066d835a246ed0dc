-- Looks whether events are posted under values.
-- KEYS: postings
-- ARGV: state
-- state is the one that was read; under another nothing is said. KEYS goes on with the
-- list of each value, ARGV with the number of the event, the value's tag and the bit of
-- the type.
-- Returns: {'found', 1 or 0, …} | {'conflict'}
if redis.call('GET', postings) ~= state then return {'conflict'} end
local found = {'found'}
for i = 1, #KEYS - named_keys do
  local list, at = KEYS[named_keys + i], named_args + 3 * i - 2
  local number, there = tonumber(ARGV[at]), 0
  local last = postings_in(list) - 1
  for n = first_posting(list, number), last do
    local one = redis.call('GETRANGE', list, whole(n * 8), whole(n * 8 + 7))
    if posted_at(list, n) ~= number then break end
    if string.sub(one, 6, 7) == ARGV[at + 1] and math.floor(string.byte(one, 8) / tonumber(ARGV[at + 2])) % 2 == 1 then there = 1 end
  end
  found[#found + 1] = there
end
return found
