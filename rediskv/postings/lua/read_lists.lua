-- Reads of some lists the postings of the events behind one, up to another.
-- KEYS: postings
-- ARGV: after, upto
-- KEYS goes on with the lists.
-- Returns: {'read', the state or '', a part of each list}
local parts = {'read', redis.call('GET', postings) or ''}
for i = named_keys + 1, #KEYS do
  local list, part = KEYS[i], ''
  if postings_in(list) > 0 then
    local first, behind = first_posting(list, after + 1), first_posting(list, upto + 1)
    if behind > first then part = redis.call('GETRANGE', list, whole(first * 8), whole(behind * 8 - 1)) end
  end
  parts[i - named_keys + 2] = part
end
return parts
