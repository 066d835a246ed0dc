-- Removes payments that are in a pack: all of their records, of each that is still as it
-- was read, by its digest, and its entries in the lists that the line has. One that has gone
-- on stays, and is noted, so that it is moved in time.
-- KEYS: archive
-- ARGV: number, pack, count, now_ms
-- number is that of the line of the manifest that names the pack. KEYS goes on with five for
-- each of count payments: the payment, its ticket, its parts, the payments of its
-- organization that are still to be moved, and what is archived of that; behind each five
-- are lists. ARGV goes on with three: its identifier, the digest, how many lists there are;
-- and for each of these with how many members of it are the payment's, and which.
-- Returns: {'removed', number of those that are still there} | {'conflict'}
if not string.find(redis.call('HGET', archive, number) or '', pack, 1, true) then return {'conflict'} end
local stay, key, arg = 0, named_keys, named_args
for _ = 1, tonumber(count) do
  local payment, ticket, parts, returned, archived = unpack(KEYS, key + 1, key + 5)
  local id, digest, lists = unpack(ARGV, arg + 1, arg + 3)
  key, arg = key + 5, arg + 3
  local fields = redis.call('HGETALL', payment)
  local same = #fields > 0 and content_digest(fields, redis.call('GET', ticket) or '', redis.call('HGETALL', parts)) == digest
  if same then
    redis.call('UNLINK', payment, ticket, parts)
    redis.call('ZREM', returned, id)
  elseif #fields > 0 then
    redis.call('ZADD', returned, now_ms, id)
    stay = stay + 1
  end
  same = same and (redis.call('HGET', archived, number) or '-') ~= '-'
  for _ = 1, tonumber(lists) do
    local members = tonumber(ARGV[arg + 1])
    key, arg = key + 1, arg + 1
    if same then redis.call('ZREM', KEYS[key], unpack(ARGV, arg + 1, arg + members)) end
    arg = arg + members
  end
end
return {'removed', whole(stay)}
