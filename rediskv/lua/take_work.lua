-- Leases due deliveries of one endpoint. The lease is the delivery's place in
-- the queue: whoever does not report until then has lost it. Each attempt is
-- written down as unknown before it is made, between the head and the tail of
-- its JSON that Go gives.
-- KEYS: 1 ready, 2 endpoint, 3 queue, 4 leases, then for each candidate: its
--   hash, its attempts
-- ARGV: 1 now (ms), 2 lease until (ms), 3 first cap, 4 ready member,
--   5 most to take, then for each candidate: id, attempt head, attempt tail
-- Returns: {'taken', {id, number, died, {field, value, …}}, …}
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
local arg = 6
for key = 5, #KEYS, 2 do
  local id = ARGV[arg]
  local score = redis.call('ZSCORE', KEYS[3], id)
  if score and tonumber(score) <= now and #taken <= tonumber(ARGV[5]) then
    -- An attempt whose worker died costs no retry.
    local died = redis.call('ZSCORE', KEYS[4], id) and 1 or 0
    if running < cap then
      running = running + 1
      if died == 0 then redis.call('HINCRBY', KEYS[key], 'run', 1) end
      local number = whole(redis.call('HINCRBY', KEYS[key], 'n', 1))
      redis.call('ZADD', KEYS[3], ARGV[2], id)
      redis.call('ZADD', KEYS[4], ARGV[2], id)
      redis.call('HSET', KEYS[key], 'st', 'sending', 'lat', ARGV[1])
      redis.call('HDEL', KEYS[key], 'nat')
      local why = redis.call('HMGET', KEYS[key], 'trig', 'rpl')
      local replay = (why[2] or '') ~= '' and '"' .. why[2] .. '"' or 'null'
      redis.call('HSET', KEYS[key + 1], number, ARGV[arg + 1] .. number .. ',"trigger":"' .. why[1] ..
        '","replay_id":' .. replay .. ARGV[arg + 2])
      taken[#taken + 1] = {id, number, died, redis.call('HGETALL', KEYS[key])}
    end
  end
  arg = arg + 3
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
