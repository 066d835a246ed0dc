-- Makes the deliveries of events that were handed over, and acknowledges them.
-- A delivery that is there already stays as it is: whoever comes second, or
-- comes again, changes nothing.
-- KEYS: dispatch, webhooks, ready
-- ARGV: group, webhooks_revision, now_ms, first_cap, entry_count
-- ARGV goes on with entry_count entries. Then for each endpoint: KEYS itself, its
-- queue, leases, open deliveries and all deliveries, and the hashes of its new
-- deliveries; ARGV its id, state of its deliveries, ready member, number of
-- deliveries, and for each of them: id, sequence, event's time, event, event type,
-- place in the log, envelope.
-- Returns: {'handed'} | {'stale'}
if (redis.call('HGET', webhooks, 'v') or '') ~= webhooks_revision then
  -- What has been handed over is gone from the stream, by this very run or by
  -- another worker, and stays as it is whatever the endpoints want now.
  for i = named_args + 1, named_args + tonumber(entry_count) do
    if #redis.call('XRANGE', dispatch, ARGV[i], ARGV[i]) > 0 then return {'stale'} end
  end
  return {'handed'}
end

local key, at = named_keys + 1, named_args + 1 + tonumber(entry_count)
while key <= #KEYS do
  local endpoint, queue, leases, open, all = KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3], KEYS[key + 4]
  local id, state, member, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local queued, opened, listed = {}, {}, {}
  key, at = key + 5, at + 4
  local names = {}
  for n = 1, count do names[n] = ARGV[at + 7 * (n - 1)] end
  local there = redis.call('ZMSCORE', all, unpack(names))
  for n = 0, count - 1 do
    if not there[n + 1] then
      local delivery, name = KEYS[key + n], names[n + 1]
      redis.call('HSET', delivery, 'st', state, 'we', id, 'evt', ARGV[at + 3], 'et', ARGV[at + 4], 'sid', ARGV[at + 5],
        'trig', 'schedule', 'crt', now_ms, 'e', ARGV[at + 6])
      local i = #queued + 1
      queued[i], queued[i + 1] = now_ms, name
      opened[i], opened[i + 1] = ARGV[at + 2], name
      listed[i], listed[i + 1] = ARGV[at + 1], name
    end
    at = at + 7
  end
  key = key + count
  if #listed > 0 then
    redis.call('ZADD', all, unpack(listed))
    redis.call('ZADD', open, unpack(opened))
    if state == 'pending' then
      redis.call('ZADD', queue, unpack(queued))
      -- An endpoint that has all it may have at once is looked at when an
      -- attempt ends; sooner there would be nothing to do.
      local cap = tonumber(redis.call('HGET', endpoint, 'cap') or first_cap) or tonumber(first_cap)
      if under_way(leases, real_time()) < cap then wake(ready, member, now_ms) end
    end
  end
end
redis.call('XACK', dispatch, group, values(named_args + 1, entry_count))
redis.call('XDEL', dispatch, values(named_args + 1, entry_count))
return {'handed'}
