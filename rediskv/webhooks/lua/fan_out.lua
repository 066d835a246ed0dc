-- Makes the deliveries of events that were handed over, and acknowledges them.
-- A delivery that is there already stays as it is: whoever comes second, or
-- comes again, changes nothing. An endpoint at which nothing waits gets what it has
-- room for at once: that is leased as take_work does it.
-- KEYS: dispatch, webhooks, ready
-- ARGV: group, webhooks_revision, now_ms, lease_ms, first_cap, entry_count
-- ARGV goes on with entry_count entries. Then for each endpoint: KEYS itself, its
-- queue, leases, open deliveries and all deliveries, the mark of what is leased, and
-- the hashes of its new deliveries; ARGV its id, state of its deliveries, ready member,
-- revision, URL, how many to lease, number of deliveries, and for each of them: id,
-- sequence, event's time, event, event type, place in the log, envelope. Where what never
-- changes of them is folded, that is the last, and the three before are empty.
-- Returns: {'handed', Redis' time (0: nothing was to be leased), 1 when an endpoint has room
--   for what is due there (or 0), {number of the endpoint, end of the leases, number of the
--   delivery, …}, …} | {'stale'}
local now, real = tonumber(now_ms), 0
local gone = (redis.call('HGET', webhooks, 'v') or '') ~= webhooks_revision
if gone then
  -- What has been handed over is gone from the stream, by this very run or by
  -- another worker, and stays as it is whatever the endpoints want now.
  for i = named_args + 1, named_args + tonumber(entry_count) do
    if #redis.call('XRANGE', dispatch, ARGV[i], ARGV[i]) > 0 then return {'stale'} end
  end
else
  -- What is in nobody's hands any more has been handed over; or Redis has lost it since it
  -- was read, and the event with it.
  gone = redis.call('XACK', dispatch, group, values(named_args + 1, entry_count)) == 0
end

-- The deliveries that were leased before the reply was lost, and are leased still.
local function leased_before(first, leases, names)
  local _, until_then = leased_by(first)
  local held, found = redis.call('ZMSCORE', leases, unpack(names)), {tonumber(until_then)}
  for n = 1, #names do
    if held[n] and tonumber(held[n]) == tonumber(until_then) then found[#found + 1] = n end
  end
  return found
end

-- Lists deliveries, and says which were listed before.
local function list(all, names, listed)
  if #names == 1 then return {redis.call('ZADD', all, 'NX', unpack(listed)) == 0} end
  local there = redis.call('ZMSCORE', all, unpack(names))
  redis.call('ZADD', all, 'NX', unpack(listed))
  return there
end

-- How many more deliveries an endpoint may have at once, and whether others are due
-- there. What is leased stands in the queue, too.
local function standing(health, queue, leases)
  local cap = tonumber(health[4] or first_cap) or tonumber(first_cap)
  if redis.call('ZCARD', queue) == 0 then return cap, false end
  if real == 0 then real = real_time() end
  local head = redis.call('ZRANGE', queue, '0', '0', 'WITHSCORES')[2]
  return cap - under_way(leases, real), tonumber(head) <= now
end

-- How many of new deliveries are leased.
local function lease(health, revision, most, room, waiting)
  local paused = (tonumber(health[3] or '0') or 0) > now
  if waiting or paused or health[1] ~= 'active' or health[2] ~= revision then return 0 end
  return math.max(0, math.min(most, room))
end

-- What never changes of a delivery, as fields of its hash.
local function lasting(endpoint, i)
  local event, kind, place, envelope = unpack(ARGV, i + 3, i + 6)
  if event == '' then return pieces('p', envelope) end
  return 'we', endpoint, 'evt', event, 'et', kind, 'sid', place, 'crt', now_ms, 'e', envelope
end

local handed = {'handed', 0, gone and 1 or 0}
local key, at, number = named_keys + 1, named_args + 1 + tonumber(entry_count), 0
while key <= #KEYS do
  local endpoint, queue, leases, open, all, mark = unpack(KEYS, key, key + 5)
  local id, state, member, revision, url, most, count = unpack(ARGV, at, at + 6)
  most, count, number = tonumber(most), tonumber(count), number + 1
  key, at = key + 6, at + 7
  local names, listed = {}, {}
  for n = 1, count do
    names[n] = ARGV[at + 7 * (n - 1)]
    listed[2 * n - 1], listed[2 * n] = ARGV[at + 7 * (n - 1) + 1], names[n]
  end
  local first, lease_end
  if most > 0 then
    if real == 0 then real = real_time() end
    lease_end = real + tonumber(lease_ms)
    if gone then first = earlier(mark) else first = claim(mark, string.rep('1', count) .. ' ' .. whole(lease_end)) end
    local found = first and leased_before(first, leases, names) or {}
    if #found > 1 then handed[#handed + 1] = {number, unpack(found)} end
    if first then handed[3] = 1 end
  end
  if not gone then
    local there = list(all, names, listed)
    local health, room, waiting, leased = nil, 0, false, 0
    if state == 'pending' then
      health = redis.call('HMGET', endpoint, 'st', 'v', 'pause', 'cap')
      room, waiting = standing(health, queue, leases)
      if not first then leased = lease(health, revision, most, room, waiting) end
    end
    local queued, opened, ended, taken = {}, {}, {}, {number, lease_end}
    for n = 1, count do
      local delivery, i = KEYS[key + n - 1], at + 7 * (n - 1)
      if not there[n] then
        opened[#opened + 1], opened[#opened + 2] = ARGV[i + 2], names[n]
        if #ended < 2 * leased then
          redis.call('HSET', delivery, 'st', 'sending', 'n', '1', 'run', '1', 'lat', now_ms, 'to', url, 'trig', 'schedule', lasting(id, i))
          queued[#queued + 1], queued[#queued + 2] = whole(now + tonumber(lease_ms)), names[n]
          ended[#ended + 1], ended[#ended + 2] = whole(lease_end), names[n]
          taken[#taken + 1] = n
        else
          redis.call('HSET', delivery, 'st', state, 'trig', 'schedule', lasting(id, i))
          queued[#queued + 1], queued[#queued + 2] = untouched(now, n), names[n]
        end
      end
    end
    if #opened > 0 then redis.call('ZADD', open, unpack(opened)) end
    if #ended > 0 then
      redis.call('ZADD', leases, unpack(ended))
      handed[#handed + 1] = taken
    end
    if #opened > 0 and state == 'pending' then
      redis.call('ZADD', queue, unpack(queued))
      -- An endpoint that has all it may have at once is looked at when an
      -- attempt ends; sooner there would be nothing to do.
      if #queued > #ended and room > #ended / 2 then
        redis.call('ZADD', ready, 'LT', now_ms, member)
        handed[3] = 1
      elseif #ended > 0 then
        redis.call('ZADD', ready, 'LT', queued[1], member)
      end
    end
  end
  key, at = key + count, at + 7 * count
end
handed[2] = real
if gone then return handed end
redis.call('XDEL', dispatch, values(named_args + 1, entry_count))
return handed
