-- Leases due deliveries of one endpoint. The lease is the delivery's place in
-- the queue: whoever does not report until then has lost it. Each attempt is
-- written down as unknown before it is made; Go gives its JSON in pieces.
-- KEYS: 1 ready, 2 endpoint, 3 queue, 4 leases, then for each candidate: its
--   hash, its attempts
-- ARGV: 1 now (ms), 2 lease until (ms), 3 first cap, 4 ready member,
--   5 number of candidates, their ids, the ids of their attempts; then the
--   attempt's JSON up to its own id, from there to the delivery's, from there
--   to the number, and what follows the replay
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
local count = tonumber(ARGV[5])
if count > 0 then
  local due = redis.call('ZMSCORE', KEYS[3], unpack(ARGV, 6, 5 + count))
  local held = redis.call('ZMSCORE', KEYS[4], unpack(ARGV, 6, 5 + count))
  local at = 6 + 2 * count
  local leases = {}
  for i = 1, count do
    if due[i] and tonumber(due[i]) <= now and running < cap then
      running = running + 1
      local id, hash = ARGV[5 + i], KEYS[3 + 2 * i]
      local was = redis.call('HMGET', hash, 'n', 'run', 'trig', 'rpl', 'evt', 'et', 'sid', 'body')
      local number, run = whole(tonumber(was[1] or 0) + 1), tonumber(was[2] or 0)
      -- An attempt whose worker died costs no retry.
      local died = held[i] and 1 or 0
      if died == 0 then run = run + 1 end
      redis.call('HSET', hash, 'st', 'sending', 'n', number, 'run', whole(run), 'lat', ARGV[1])
      if was[1] then redis.call('HDEL', hash, 'nat') end
      local replay = (was[4] or '') ~= '' and '"' .. was[4] .. '"' or 'null'
      redis.call('HSET', KEYS[4 + 2 * i], number, ARGV[at] .. ARGV[5 + count + i] .. ARGV[at + 1] .. id .. ARGV[at + 2] ..
        number .. ',"trigger":"' .. was[3] .. '","replay_id":' .. replay .. ARGV[at + 3])
      leases[#leases + 1] = ARGV[2]
      leases[#leases + 1] = id
      taken[#taken + 1] = {i, number, run, died, was[3], was[4], was[5], was[6], was[7], was[8]}
    end
  end
  if #leases > 0 then
    redis.call('ZADD', KEYS[3], unpack(leases))
    redis.call('ZADD', KEYS[4], unpack(leases))
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
