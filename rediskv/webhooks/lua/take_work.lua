-- Leases due deliveries of one endpoint. The lease is the delivery's place in
-- the queue: whoever does not report until then has lost it, and the attempt is
-- written down as unknown when the next one begins: when and by what it was
-- started, and where to.
-- KEYS: ready, endpoint, queue, leases, targets, mark
-- ARGV: now_ms, lease_until, first_cap, ready_member, url, candidate_count
-- ARGV goes on with candidate_count ids. For each candidate: KEYS its hash, its
-- attempts.
-- Returns: {'taken', {index of the candidate, number, run, died, trigger,
--   replay, event, event type, place in the log, body, endpoint, time, envelope}, or
--   {index} of one that cannot be read, …}
local now = tonumber(now_ms)
local taken = {'taken'}
local count = tonumber(candidate_count)
-- The reply was lost: what was leased then, and is leased still, is taken. The
-- mark has a digit for each candidate: 0 (not taken), 1 or 2 (its worker died).
local first = count > 0 and earlier(mark)
if first then
  local held = redis.call('ZMSCORE', leases, values(named_args + 1, count))
  for i = 1, count do
    local how = tonumber(string.sub(first, i, i))
    if how > 0 and held[i] and tonumber(held[i]) == tonumber(lease_until) then
      local is = redis.call('HMGET', KEYS[named_keys + 2 * i - 1], 'n', 'run', 'trig', 'rpl', 'evt', 'et', 'sid', 'body', 'we', 'crt', 'e')
      taken[#taken + 1] = {i, is[1], tonumber(is[2]), how - 1, is[3], is[4], is[5], is[6], is[7], is[8], is[9], is[10], is[11]}
    end
  end
  return taken
end
local health = redis.call('HMGET', endpoint, 'st', 'pause', 'cap')
if health[1] ~= 'active' then
  redis.call('ZREM', ready, ready_member)
  return taken
end
if (tonumber(health[2] or '0') or 0) > now then
  redis.call('ZADD', ready, health[2], ready_member)
  return taken
end
local cap = tonumber(health[3] or first_cap) or tonumber(first_cap)
local running = redis.call('ZCOUNT', leases, '(' .. now_ms, '+inf') -- dead ones do not count
if count > 0 then
  local due = redis.call('ZMSCORE', queue, values(named_args + 1, count))
  local held = redis.call('ZMSCORE', leases, values(named_args + 1, count))
  local leased, targeted, marks = {}, {}, ''
  for i = 1, count do
    local how = 0
    if due[i] and tonumber(due[i]) <= now and running < cap then
      local id, hash = ARGV[named_args + i], KEYS[named_keys + 2 * i - 1]
      local was = redis.call('HMGET', hash, 'n', 'run', 'trig', 'rpl', 'evt', 'et', 'sid', 'body', 'lat', 'we', 'crt', 'e')
      local number, run = tonumber(was[1] or 0), tonumber(was[2] or 0)
      if not number or not run or not was[3] or not was[5] or not was[6] or (held[i] and not (was[1] and was[9])) then
        redis.call('ZADD', queue, lease_until, id)
        taken[#taken + 1] = {i}
      else
        running = running + 1
        number = whole(number + 1)
        -- An attempt whose worker died costs no retry.
        local died = 0
        if held[i] then
          died = 1
          local target = redis.call('HGET', targets, id) or url -- the endpoint may have moved since
          redis.call('HSETNX', KEYS[named_keys + 2 * i], was[1], was[9] .. ' ' .. was[3] .. ' ' .. (was[4] or '') .. ' ' .. target)
        else
          run = run + 1
        end
        redis.call('HSET', hash, 'st', 'sending', 'n', number, 'run', whole(run), 'lat', now_ms)
        if was[1] then redis.call('HDEL', hash, 'nat') end
        leased[#leased + 1] = lease_until
        leased[#leased + 1] = id
        targeted[#targeted + 1] = id
        targeted[#targeted + 1] = url
        taken[#taken + 1] = {i, number, run, died, was[3], was[4], was[5], was[6], was[7], was[8], was[10], was[11], was[12]}
        how = 1 + died
      end
    end
    marks = marks .. whole(how)
  end
  if #leased > 0 then
    mark_done(mark, marks)
    redis.call('ZADD', queue, unpack(leased))
    redis.call('ZADD', leases, unpack(leased))
    redis.call('HSET', targets, unpack(targeted))
  end
end
local head
if running >= cap then
  head = redis.call('ZRANGEBYSCORE', leases, '(' .. now_ms, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
else
  head = redis.call('ZRANGE', queue, '0', '0', 'WITHSCORES')
end
if head[2] then
  -- Behind those that wait longer.
  if tonumber(head[2]) < now then head[2] = now_ms end
  redis.call('ZADD', ready, head[2], ready_member)
else
  redis.call('ZREM', ready, ready_member)
end
return taken
