-- Puts records of a payment in the place of those that were read, unless one of them has
-- changed since. Whoever has read it for an archive before is too late with that.
-- KEYS: fence
-- ARGV: kinds
-- KEYS goes on with the records. kinds has a letter for each of these: h for a hash, s for a
-- string. ARGV goes on with three and more for each: the digest of what was read, a number of
-- values, and these: those of a string's one text, or the fields and values of a hash.
-- Returns: {'erased'} | {'conflict'}
local at = named_args + 1
for i = named_keys + 1, #KEYS do
  local text
  if string.sub(kinds, i - named_keys, i - named_keys) == 'h' then
    text = table.concat(redis.call('HGETALL', KEYS[i]), ' ')
  else
    text = redis.call('GET', KEYS[i]) or ''
  end
  if redis.sha1hex(text) ~= ARGV[at] then return {'conflict'} end
  at = at + 2 + tonumber(ARGV[at + 1])
end
redis.call('INCR', fence)
at = named_args + 1
for i = named_keys + 1, #KEYS do
  local count = tonumber(ARGV[at + 1])
  if string.sub(kinds, i - named_keys, i - named_keys) == 's' then
    redis.call('SET', KEYS[i], ARGV[at + 2])
  else
    redis.call('UNLINK', KEYS[i])
    for n = at + 2, at + 1 + count, 2 do redis.call('HSET', KEYS[i], ARGV[n], ARGV[n + 1]) end
  end
  at = at + 2 + count
end
return {'erased'}
