-- Leases due deliveries of one endpoint. The lease is the delivery's place in
-- the queue: whoever does not report until then has lost it, and the attempt is
-- written down as unknown when the next one begins: when and by what it was
-- started, and where to.
-- KEYS: 1 ready, 2 endpoint, 3 queue, 4 leases, 5 targets, 6 the operation's
--   mark, then for each candidate: its hash, its attempts
-- ARGV: 1 now (ms), 2 lease until (ms), 3 first cap, 4 ready member,
--   5 endpoint's URL, 6 number of candidates, their ids
-- Returns: {'taken', {index of the candidate, number, run, died, trigger,
--   replay, event, event type, place in the log, body}, or {index} of one that
--   cannot be read, …}
local now = tonumber(ARGV[1])
local taken = {'taken'}
local count = tonumber(ARGV[6])
-- The reply was lost: what was leased then, and is leased still, is taken. The
-- mark has a digit for each candidate: 0 (not taken), 1 or 2 (its worker died).
local first = count > 0 and earlier(KEYS[6])
if first then
  local held = redis.call('ZMSCORE', KEYS[4], unpack(ARGV, 7, 6 + count))
  for i = 1, count do
    local how = tonumber(string.sub(first, i, i))
    if how > 0 and held[i] and tonumber(held[i]) == tonumber(ARGV[2]) then
      local is = redis.call('HMGET', KEYS[5 + 2 * i], 'n', 'run', 'trig', 'rpl', 'evt', 'et', 'sid', 'body')
      taken[#taken + 1] = {i, is[1], tonumber(is[2]), how - 1, is[3], is[4], is[5], is[6], is[7], is[8]}
    end
  end
  return taken
end
local health = redis.call('HMGET', KEYS[2], 'st', 'pause', 'cap')
if health[1] ~= 'active' then
  redis.call('ZREM', KEYS[1], ARGV[4])
  return taken
end
if (tonumber(health[2] or '0') or 0) > now then
  redis.call('ZADD', KEYS[1], health[2], ARGV[4])
  return taken
end
local cap = tonumber(health[3] or ARGV[3]) or tonumber(ARGV[3])
local running = redis.call('ZCOUNT', KEYS[4], '(' .. ARGV[1], '+inf') -- dead ones do not count
if count > 0 then
  local due = redis.call('ZMSCORE', KEYS[3], unpack(ARGV, 7, 6 + count))
  local held = redis.call('ZMSCORE', KEYS[4], unpack(ARGV, 7, 6 + count))
  local leases, targets, marks = {}, {}, ''
  for i = 1, count do
    local how = 0
    if due[i] and tonumber(due[i]) <= now and running < cap then
      local id, hash = ARGV[6 + i], KEYS[5 + 2 * i]
      local was = redis.call('HMGET', hash, 'n', 'run', 'trig', 'rpl', 'evt', 'et', 'sid', 'body', 'lat')
      local number, run = tonumber(was[1] or 0), tonumber(was[2] or 0)
      if not number or not run or not was[3] or not was[5] or not was[6] or (held[i] and not (was[1] and was[9])) then
        redis.call('ZADD', KEYS[3], ARGV[2], id)
        taken[#taken + 1] = {i}
      else
        running = running + 1
        number = whole(number + 1)
        -- An attempt whose worker died costs no retry.
        local died = 0
        if held[i] then
          died = 1
          local target = redis.call('HGET', KEYS[5], id) or ARGV[5] -- the endpoint may have moved since
          redis.call('HSETNX', KEYS[6 + 2 * i], was[1], was[9] .. ' ' .. was[3] .. ' ' .. (was[4] or '') .. ' ' .. target)
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
        how = 1 + died
      end
    end
    marks = marks .. whole(how)
  end
  if #leases > 0 then
    mark_done(KEYS[6], marks)
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
