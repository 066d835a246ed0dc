-- Records how an attempt ended. Only who still holds the lease moves the
-- delivery; a late answer is recorded and changes nothing else.
-- KEYS: 1 delivery, 2 attempts, 3 queue, 4 leases, 5 open, 6 ready, 7 endpoint
-- ARGV: 1 delivery id, 2 number, 3 attempt, 4 state, 5 now (ms), 6 next (ms),
--   7 pause until (ms, or empty), 8 healthy (1 or 0), 9 status code,
--   10 failure reason, 11 lifetime when done (ms), 12 ready member, 13 most cap
-- Returns: {'recorded', failures, last success} | {'late'}
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
if not redis.call('ZSCORE', KEYS[4], ARGV[1]) or redis.call('HGET', KEYS[1], 'n') ~= ARGV[2] then
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('PEXPIRE', KEYS[2], whole(left)) end
  -- This very record, sent again after a lost reply, is not late.
  if redis.call('HGET', KEYS[1], 'done') ~= ARGV[2] then return {'late'} end
  local health = redis.call('HMGET', KEYS[7], 'fail', 'ok')
  return {'recorded', health[1] or '0', health[2] or '0'}
end

redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('HSET', KEYS[1], 'st', ARGV[4], 'done', ARGV[2], 'code', ARGV[9], 'why', ARGV[10])
if ARGV[4] == 'retrying' then
  redis.call('HSET', KEYS[1], 'nat', ARGV[6])
  redis.call('ZADD', KEYS[3], ARGV[6], ARGV[1])
else
  redis.call('HSET', KEYS[1], 'cat', ARGV[5])
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('ZREM', KEYS[5], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[11])
  redis.call('PEXPIRE', KEYS[2], ARGV[11])
end
local health = redis.call('HMGET', KEYS[7], 'st', 'cap', 'fail', 'ok')
if not health[1] then return {'recorded', '0', '0'} end
if ARGV[8] == '1' then
  local cap = tonumber(health[2] or '8') * 2
  if cap > tonumber(ARGV[13]) then cap = tonumber(ARGV[13]) end
  redis.call('HSET', KEYS[7], 'ok', ARGV[5], 'fail', '0', 'cap', whole(cap))
  health[3], health[4] = '0', ARGV[5]
else
  redis.call('HSET', KEYS[7], 'cap', '1')
  if ARGV[4] == 'failed' then health[3] = whole(redis.call('HINCRBY', KEYS[7], 'fail', 1)) end
end
local pause = redis.call('HGET', KEYS[7], 'pause') or '0'
if ARGV[7] ~= '' and tonumber(ARGV[7]) > tonumber(pause) then -- a longer one stays
  pause = ARGV[7]
  redis.call('HSET', KEYS[7], 'pause', pause)
end
local head = redis.call('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')[2]
if head and health[1] == 'active' then
  if tonumber(pause) > tonumber(head) then head = pause end
  redis.call('ZADD', KEYS[6], head, ARGV[12])
end
return {'recorded', health[3] or '0', health[4] or '0'}
