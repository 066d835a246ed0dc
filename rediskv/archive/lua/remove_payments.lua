-- Removes payments that are in a pack: all of their records, of each that is still as it
-- was read, by its digest. One that has gone on stays, and is noted, so that it is moved in
-- time.
-- KEYS: archive
-- ARGV: number, pack, count, now_ms
-- number is that of the line of the manifest that names the pack. KEYS goes on with four for
-- each of count payments: the payment, its ticket, its parts, and the payments of its
-- organization that are still to be moved. ARGV goes on with two: its identifier, the digest.
-- Returns: {'removed', number of those that are still there} | {'conflict'}
if not string.find(redis.call('HGET', archive, number) or '', pack, 1, true) then return {'conflict'} end
local stay = 0
for i = 1, tonumber(count) do
  local at = named_keys + 4 * i - 3
  local payment, ticket, parts, returned = KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3]
  local fields = redis.call('HGETALL', payment)
  if #fields > 0 then
    if content_digest(fields, redis.call('GET', ticket) or '', redis.call('HGETALL', parts)) == ARGV[named_args + 2 * i] then
      redis.call('UNLINK', payment, ticket, parts)
      redis.call('ZREM', returned, ARGV[named_args + 2 * i - 1])
    else
      redis.call('ZADD', returned, now_ms, ARGV[named_args + 2 * i - 1])
      stay = stay + 1
    end
  end
end
return {'removed', whole(stay)}
