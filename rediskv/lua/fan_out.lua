-- Makes the deliveries of events that were handed over, and acknowledges them.
-- A delivery that is there already stays as it is: whoever comes second, or
-- comes again, changes nothing.
-- KEYS: 1 dispatch, 2 webhooks, 3 ready, then for each delivery: its hash, its
--   endpoint's queue, open deliveries, all deliveries and leases, the endpoint
-- ARGV: 1 group, 2 revision of the webhooks, 3 now (ms), 4 first cap,
--   5 number of entries, the entries; then for each delivery: state, ready
--   member, id, sequence, event's time (ms), number of fields, the fields
-- Returns: {'handed'} | {'stale'}
if (redis.call('HGET', KEYS[2], 'v') or '') ~= ARGV[2] then return {'stale'} end

local at = 6 + tonumber(ARGV[5])
for key = 4, #KEYS, 6 do
  local state, member, id = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local fields = tonumber(ARGV[at + 5])
  if redis.call('EXISTS', KEYS[key]) == 0 then
    redis.call('HSET', KEYS[key], 'st', state, unpack(ARGV, at + 6, at + 5 + fields))
    redis.call('ZADD', KEYS[key + 3], ARGV[at + 3], id)
    redis.call('ZADD', KEYS[key + 2], ARGV[at + 4], id)
    if state == 'pending' then
      redis.call('ZADD', KEYS[key + 1], ARGV[3], id)
      -- An endpoint that has all it may have at once is looked at when an
      -- attempt ends; sooner there would be nothing to do.
      local cap = tonumber(redis.call('HGET', KEYS[key + 5], 'cap') or ARGV[4])
      if redis.call('ZCOUNT', KEYS[key + 4], '(' .. ARGV[3], '+inf') < cap then wake(KEYS[3], member, ARGV[3]) end
    end
  end
  at = at + 6 + fields
end
for i = 6, 5 + tonumber(ARGV[5]) do
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[i])
  redis.call('XDEL', KEYS[1], ARGV[i])
end
return {'handed'}
