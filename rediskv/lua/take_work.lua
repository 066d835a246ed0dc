-- Leases due deliveries of one endpoint. The lease is the delivery's place in
-- the queue: whoever does not report until then has lost it, and the attempt is
-- written down as unknown when the next one begins: when and by what it was
-- started, and where to.
-- KEYS: 1 ready, 2 endpoint, 3 queue, 4 leases, 5 targets, then for each
--   candidate: its hash, its attempts
-- ARGV: 1 now (ms), 2 lease until (ms), 3 first cap, 4 ready member,
--   5 endpoint's URL, 6 number of candidates, their ids
-- Returns: {'taken', {index of the candidate, number, run, died, trigger,
--   replay, event, event type, place in the log, body}, …}
local now = tonumber(ARGV[1])
local taken = {'taken'}
local health = redis.call('HMGET', KEYS[2], 'st', 'pause', 'cap')
if health[1] ~= 'active' then
  redis.call('ZREM', KEYS[1], ARGV[4])
  return taken
end
if health[2] and tonumber(health[2]) > now then
  redis.call('ZADD', KEYS[1], health[2], ARGV[4])
  return taken
end
local cap = tonumber(health[3] or ARGV[3])
local running = redis.call('ZCOUNT', KEYS[4], '(' .. ARGV[1], '+inf') -- dead ones do not count
local count = tonumber(ARGV[6])
if count > 0 then
  local due = redis.call('ZMSCORE', KEYS[3], unpack(ARGV, 7, 6 + count))
  local held = redis.call('ZMSCORE', KEYS[4], unpack(ARGV, 7, 6 + count))
  local leases, targets = {}, {}
  for i = 1, count do
    if due[i] and tonumber(due[i]) <= now and running < cap then
      running = running + 1
      local id, hash = ARGV[6 + i], KEYS[4 + 2 * i]
      local was = redis.call('HMGET', hash, 'n', 'run', 'trig', 'rpl', 'evt', 'et', 'sid', 'body', 'lat')
      local number, run = whole(tonumber(was[1] or 0) + 1), tonumber(was[2] or 0)
      -- An attempt whose worker died costs no retry.
      local died = 0
      if held[i] then
        died = 1
        local target = redis.call('HGET', KEYS[5], id) or ARGV[5] -- the endpoint may have moved since
        redis.call('HSETNX', KEYS[5 + 2 * i], was[1], was[9] .. ' ' .. was[3] .. ' ' .. (was[4] or '') .. ' ' .. target)
      else
        run = run + 1
      end
      redis.call('HSET', hash, 'st', 'sending', 'n', number, 'run', whole(run), 'lat', ARGV[1])
      if was[1] then redis.call('HDEL', hash, 'nat') end
      leases[#leases + 1] = ARGV[2]
      leases[#leases + 1] = id
      targets[#targets + 1] = id
      targets[#targets + 1] = ARGV[5]
      taken[#taken + 1] = {i, number, run, died, was[3], was[4], was[5], was[6], was[7], was[8]}
    end
  end
  if #leases > 0 then
    redis.call('ZADD', KEYS[3], unpack(leases))
    redis.call('ZADD', KEYS[4], unpack(leases))
    redis.call('HSET', KEYS[5], unpack(targets))
  end
end
local head
if running >= cap then
  head = redis.call('ZRANGEBYSCORE', KEYS[4], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
else
  head = redis.call('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
end
if head[2] then
  -- Behind those that wait longer.
  if tonumber(head[2]) < now then head[2] = ARGV[1] end
  redis.call('ZADD', KEYS[1], head[2], ARGV[4])
else
  redis.call('ZREM', KEYS[1], ARGV[4])
end
return taken
