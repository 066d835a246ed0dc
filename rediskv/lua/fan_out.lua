-- Makes the deliveries of events that were handed over, and acknowledges them.
-- A delivery that is there already stays as it is: whoever comes second, or
-- comes again, changes nothing.
-- KEYS: 1 dispatch, 2 webhooks, 3 ready, then for each endpoint: itself, its
--   queue, leases, open deliveries and all deliveries, and the hashes of its
--   new deliveries
-- ARGV: 1 group, 2 revision of the webhooks, 3 now (ms), 4 first cap,
--   5 number of entries, the entries; then for each endpoint: its id, state of
--   its deliveries, ready member, number of deliveries, and for each of them:
--   id, sequence, event's time (ms), event, event type, place in the log
-- Returns: {'handed'} | {'stale'}
if (redis.call('HGET', KEYS[2], 'v') or '') ~= ARGV[2] then
  -- What has been handed over is gone from the stream, by this very run or by
  -- another worker, and stays as it is whatever the endpoints want now.
  for i = 6, 5 + tonumber(ARGV[5]) do
    if #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i]) > 0 then return {'stale'} end
  end
  return {'handed'}
end

local key, at = 4, 6 + tonumber(ARGV[5])
while key <= #KEYS do
  local endpoint, queue, leases, open, all = KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3], KEYS[key + 4]
  local id, state, member, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local queued, opened, listed = {}, {}, {}
  key, at = key + 5, at + 4
  local names = {}
  for n = 1, count do names[n] = ARGV[at + 6 * (n - 1)] end
  local there = redis.call('ZMSCORE', all, unpack(names))
  for n = 0, count - 1 do
    if not there[n + 1] then
      local delivery, name = KEYS[key + n], names[n + 1]
      redis.call('HSET', delivery, 'st', state, 'we', id, 'evt', ARGV[at + 3], 'et', ARGV[at + 4], 'sid', ARGV[at + 5],
        'trig', 'schedule', 'crt', ARGV[3])
      local i = #queued + 1
      queued[i], queued[i + 1] = ARGV[3], name
      opened[i], opened[i + 1] = ARGV[at + 2], name
      listed[i], listed[i + 1] = ARGV[at + 1], name
    end
    at = at + 6
  end
  key = key + count
  if #listed > 0 then
    redis.call('ZADD', all, unpack(listed))
    redis.call('ZADD', open, unpack(opened))
    if state == 'pending' then
      redis.call('ZADD', queue, unpack(queued))
      -- An endpoint that has all it may have at once is looked at when an
      -- attempt ends; sooner there would be nothing to do.
      local cap = tonumber(redis.call('HGET', endpoint, 'cap') or ARGV[4]) or tonumber(ARGV[4])
      if redis.call('ZCOUNT', leases, '(' .. ARGV[3], '+inf') < cap then wake(KEYS[3], member, ARGV[3]) end
    end
  end
end
redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 6, 5 + tonumber(ARGV[5])))
redis.call('XDEL', KEYS[1], unpack(ARGV, 6, 5 + tonumber(ARGV[5])))
return {'handed'}
