-- Records how attempts of one endpoint ended. Each is fenced by itself: only
-- who still holds its lease moves the delivery; a late answer is recorded and
-- changes nothing else. That no answer came says nothing once the lease is over, by
-- Redis' time: whoever was frozen for so long did not hear it. Such an attempt stays
-- unknown. An answer counts for the health of the endpoint only if
-- that was not changed since it was asked: the old address does not speak for
-- the new one.
-- KEYS: queue, leases, open, ready, endpoint, mark
-- ARGV: now_ms, done_lifetime, ready_member, first_cap, attempt_count
-- ARGV goes on with attempt_count ids of their deliveries. Then for each attempt:
-- KEYS its delivery, the delivery's attempts, which may be the same; ARGV number, JSON, state, next (ms),
-- pause until (ms, or empty), healthy (1 or 0, or empty: the service's own fault,
-- which costs no retry), status code, failure reason, most cap, unheard (1: no
-- answer came, or empty), revision of the endpoint, when it ended (ms), end of its lease.
-- Returns: {'recorded', when the endpoint has something due (empty: nothing; 0: look),
--   {late (1 or 0), failures, last success}, …}
local reply = {'recorded', '0'}
local count = tonumber(attempt_count)
local held = redis.call('ZMSCORE', leases, values(named_args + 1, count))
local health = redis.call('HMGET', endpoint, 'st', 'cap', 'fail', 'ok', 'pause', 'v')
local cap, failures, last = tonumber(health[2] or '') or tonumber(first_cap), tonumber(health[3] or '') or 0, health[4] or '0'
local pause = tonumber(health[5] or '') and health[5] or '0'
local ended, done, again, lateness = {}, {}, {}, ''
local real
local at = named_args + 1 + count
for i = 1, count do
  local delivery, attempts, id = KEYS[named_keys + 2 * i - 1], KEYS[named_keys + 2 * i], ARGV[named_args + i]
  local number, state = ARGV[at], ARGV[at + 2]
  local late = 0
  -- A lease of a delivery begins when the one before is over, so no two have one end.
  local was, holds = {}, held[i] and tonumber(held[i]) == tonumber(ARGV[at + 12])
  if not holds then
    was = redis.call('HMGET', delivery, 'n', 'done', 'st')
    if attempts == delivery and was[3] == 'succeeded' then was[2] = was[2] or was[1] end
    holds = held[i] and was[1] == number
  end
  if ARGV[at + 9] == '1' then real = real or real_time() end
  if ARGV[at + 9] == '1' and not (holds and leased(held[i], real)) then
    if was[2] ~= number then late = 1 end
  elseif not holds then
    if attempts ~= delivery then
      put_pieces(attempts, number, ARGV[at + 1])
      local left = redis.call('PTTL', delivery)
      if left > 0 then redis.call('PEXPIRE', attempts, whole(left)) end
    elseif was[1] then -- it has not expired
      put_pieces(attempts, number, ARGV[at + 1])
    end
    -- The same record, which the worker makes again when it got no answer, is
    -- not late.
    if was[2] ~= number then late = 1 end
  else
    put_pieces(attempts, number, ARGV[at + 1])
    ended[#ended + 1] = id
    if state == 'retrying' then
      redis.call('HSET', delivery, 'st', state, 'done', number, 'code', ARGV[at + 6], 'why', ARGV[at + 7], 'nat', ARGV[at + 3], 'to', '')
      if ARGV[at + 5] == '' then redis.call('HINCRBY', delivery, 'run', '-1') end
      again[#again + 1] = ARGV[at + 3]
      again[#again + 1] = id
    else
      if attempts == delivery and state == 'succeeded' then -- the attempt says the rest (webhooks.settled)
        redis.call('HDEL', delivery, 'trig', 'rpl', 'run', 'to', 'lat', 'nat', 'done', 'code', 'why', 'cat')
        redis.call('HSET', delivery, 'st', state)
      else
        redis.call('HSET', delivery, 'st', state, 'done', number, 'code', ARGV[at + 6], 'why', ARGV[at + 7], 'cat', ARGV[at + 11], 'run', '', 'to', '')
      end
      redis.call('PEXPIRE', delivery, done_lifetime)
      if attempts ~= delivery then redis.call('PEXPIRE', attempts, done_lifetime) end
      done[#done + 1] = id
    end
    if ARGV[at + 5] ~= '' and ARGV[at + 10] == health[6] then
      if ARGV[at + 5] == '1' then
        cap, failures, last = cap * 2, 0, now_ms
        if cap > tonumber(ARGV[at + 8]) then cap = tonumber(ARGV[at + 8]) end
      else
        cap = 1
        if state == 'failed' then failures = failures + 1 end
      end
      if ARGV[at + 4] ~= '' and tonumber(ARGV[at + 4]) > tonumber(pause) then pause = ARGV[at + 4] end -- a longer one stays
    end
  end
  reply[#reply + 1] = {late, whole(failures), last}
  lateness = lateness .. whole(late)
  at = at + 13
end
if #ended == 0 then
  local first = earlier(mark)
  if first then
    for i = 1, count do reply[2 + i][1] = tonumber(string.sub(first, i, i)) end
  end
  return reply
end

mark_done(mark, lateness)
redis.call('ZREM', leases, unpack(ended))
if #again > 0 then redis.call('ZADD', queue, unpack(again)) end
if #done > 0 then
  redis.call('ZREM', queue, unpack(done))
  redis.call('ZREM', open, unpack(done))
end
reply[2] = ''
if not health[1] then return reply end -- it was deleted
local copy = whole(failures) .. ' ' .. last .. ' ' .. whole(cap) .. ' ' .. pause
redis.call('HSET', endpoint, 'cap', whole(cap), 'fail', whole(failures), 'ok', last, 'pause', pause, 'health', copy)
if health[1] ~= 'active' then return reply end
local head = redis.call('ZRANGE', queue, '0', '0', 'WITHSCORES')[2]
if head then
  if tonumber(pause) > tonumber(head) then head = pause end
  redis.call('ZADD', ready, head, ready_member)
  reply[2] = head
else
  redis.call('ZREM', ready, ready_member)
end
return reply
