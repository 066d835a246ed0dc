-- Reads the postings of events from lists.
-- KEYS: postings
-- ARGV: state
-- state is the one that was read; under another nothing is said. KEYS goes on with the
-- lists, ARGV with the first and the last event of each. Of a short list, all of it is read.
-- Returns: {'found', a part of each list} | {'conflict'}
if redis.call('GET', postings) ~= state then return {'conflict'} end
local found = {'found'}
for i = 1, #KEYS - named_keys do
  local list, at = KEYS[named_keys + i], named_args + 2 * i - 1
  local first, behind = 0, postings_in(list)
  if behind > 256 then first, behind = first_posting(list, tonumber(ARGV[at])), first_posting(list, ARGV[at + 1] + 1) end
  found[i + 1] = behind > first and redis.call('GETRANGE', list, whole(first * 8), whole(behind * 8 - 1)) or ''
end
return found
