-- Puts postings into the middle of lists, and takes others out: the next state takes the
-- place of the one that was read. A run that finds its own state has done so before.
-- KEYS: postings
-- ARGV: before, after
-- KEYS goes on with lists, ARGV with three for each: the posting's event, the posting, and
-- 1 if it is put there, 0 if it is taken out.
-- Returns: {'settled'} | {'conflict'}
local is = redis.call('GET', postings) or ''
if is == after then return {'settled'} end
if is ~= before then return {'conflict'} end
redis.call('SET', postings, after)
for i = 1, #KEYS - named_keys do
  local list, at = KEYS[named_keys + i], named_args + 3 * i - 2
  local number, posting = tonumber(ARGV[at]), ARGV[at + 1]
  local place, behind = first_posting(list, number), postings_in(list)
  while place < behind and posted_at(list, place) == number and redis.call('GETRANGE', list, whole(place * 8), whole(place * 8 + 7)) ~= posting do
    place = place + 1
  end
  local rest = redis.call('GETRANGE', list, whole(place * 8), '-1')
  local there = string.sub(rest, 1, 8) == posting
  if ARGV[at + 2] == '1' and not there then
    redis.call('SETRANGE', list, whole(place * 8), posting .. rest)
  elseif ARGV[at + 2] == '0' and there then
    local start = place > 0 and redis.call('GETRANGE', list, '0', whole(place * 8 - 1)) or ''
    if start .. rest == posting then redis.call('UNLINK', list) else redis.call('SET', list, start .. string.sub(rest, 9)) end
  end
end
return {'settled'}
