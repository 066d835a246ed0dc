-- Leases due deliveries of one endpoint, until a moment of Redis' own time: the
-- workers' clocks may differ, and a sandbox's is turned. In the queue, by whose
-- clock things fall due, a delivery stands where its lease is expected to end.
-- Whoever does not report until then has lost it, and the attempt is
-- written down as unknown when the next one begins: when and by what it was
-- started, and where to.
-- KEYS: ready, endpoint, queue, leases, targets, mark
-- ARGV: now_ms, lease_ms, first_cap, ready_member, url, candidate_count
-- ARGV goes on with candidate_count ids, and for each of them 1 when the worker has
-- made the delivery itself. For each candidate: KEYS its hash, its attempts.
-- Returns: {'taken', Redis' time, end of the leases, when something is due next (empty:
--   nothing is queued), {index of the candidate, number, run, died, trigger, replay,
--   event, event type, place in the log, body, endpoint, time, envelope, what is folded},
--   or {index, number, run, died} of one that the worker has made and nobody has touched
--   since, or {index} of one that cannot be read, …}
-- Of a delivery that is folded, the attempts stand in its own hash.
-- targets has where earlier releases sent what they leased.
local now, real = tonumber(now_ms), real_time()
local lease_end = real + tonumber(lease_ms)
local taken = {'taken', real, lease_end, ''}
local count = tonumber(candidate_count)
-- The reply was lost: what was leased then, and is leased still, is taken.
local first = count > 0 and earlier(mark)
if first then
  local marks, until_then = leased_by(first)
  taken[3], taken[4] = tonumber(until_then), now_ms
  local held = redis.call('ZMSCORE', leases, values(named_args + 1, count))
  for i = 1, count do
    local how = tonumber(string.sub(marks, i, i))
    if how > 0 and held[i] and tonumber(held[i]) == taken[3] then
      local is = redis.call('HMGET', KEYS[named_keys + 2 * i - 1], 'n', 'run', 'trig', 'rpl', 'evt', 'et', 'sid', 'body', 'we', 'crt', 'e', 'p', 'p+', 'p++', 'p+++')
      taken[#taken + 1] = {i, is[1], tonumber(is[2]), how - 1, is[3], is[4], is[5], is[6], is[7], is[8], is[9], is[10], is[11], joined(is, 12)}
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
  taken[4] = health[2]
  return taken
end
local cap = tonumber(health[3] or first_cap) or tonumber(first_cap)
local running = under_way(leases, real) -- dead ones do not count
if count > 0 then
  local due = redis.call('ZMSCORE', queue, values(named_args + 1, count))
  local held = redis.call('ZMSCORE', leases, values(named_args + 1, count))
  local queued, ended, marks = {}, {}, ''
  for i = 1, count do
    local how = 0
    local id, hash = ARGV[named_args + i], KEYS[named_keys + 2 * i - 1]
    if due[i] and tonumber(due[i]) <= now then
      if leased(held[i], real) then -- by another clock it was due sooner than its lease ends
        redis.call('ZADD', queue, whole(now + tonumber(held[i]) - real), id)
      elseif running < cap then
        local new = ARGV[named_args + count + i] == '1' and not held[i] and is_untouched(due[i])
        local was = new and {false, false, 'schedule', false, '', ''}
          or redis.call('HMGET', hash, 'n', 'run', 'trig', 'rpl', 'evt', 'et', 'sid', 'body', 'lat', 'we', 'crt', 'e', 'to', 'p', 'p+', 'p++', 'p+++')
        local folded = joined(was, 14)
        local number, run = tonumber(was[1] or 0), tonumber(was[2] or 0)
        if not number or not run or not was[3] or not (folded or was[5] and was[6]) or (held[i] and not (was[1] and was[9])) then
          redis.call('ZADD', queue, whole(now + tonumber(lease_ms)), id)
          taken[#taken + 1] = {i}
        else
          running = running + 1
          number = whole(number + 1)
          -- An attempt whose worker died costs no retry.
          local died = 0
          if held[i] then
            died = 1
            local target = redis.call('HGET', targets, id)
            if target then redis.call('HDEL', targets, id) elseif was[13] and was[13] ~= '' then target = was[13] end
            target = target or url -- the endpoint may have moved since
            local attempts = folded and hash or KEYS[named_keys + 2 * i]
            if redis.call('HEXISTS', attempts, was[1]) == 0 then
              local unknown = was[9] .. ' ' .. was[3] .. ' ' .. (was[4] or '') .. ' ' .. target
              if folded then redis.call('HSET', hash, pieces(was[1], unknown)) else redis.call('HSET', attempts, was[1], unknown) end
            end
          else
            run = run + 1
          end
          redis.call('HSET', hash, 'st', 'sending', 'n', number, 'run', whole(run), 'lat', now_ms, 'to', url)
          if was[1] then redis.call('HDEL', hash, 'nat') end
          queued[#queued + 1], queued[#queued + 2] = whole(now + tonumber(lease_ms)), id
          ended[#ended + 1], ended[#ended + 2] = whole(lease_end), id
          taken[#taken + 1] = new and {i, number, run, died}
            or {i, number, run, died, was[3], was[4], was[5], was[6], was[7], was[8], was[10], was[11], was[12], folded}
          how = 1 + died
        end
      end
    end
    marks = marks .. whole(how)
  end
  if #ended > 0 then
    mark_done(mark, marks .. ' ' .. whole(lease_end))
    redis.call('ZADD', queue, unpack(queued))
    redis.call('ZADD', leases, unpack(ended))
  end
end
local head
if running >= cap then
  head = redis.call('ZRANGEBYSCORE', leases, '(' .. whole(real), whole(real + longest_lease), 'WITHSCORES', 'LIMIT', '0', '1')
  if head[2] then head[2] = whole(now + tonumber(head[2]) - real) end
else
  head = redis.call('ZRANGE', queue, '0', '0', 'WITHSCORES')
end
if head[2] then
  -- Behind those that wait longer.
  if tonumber(head[2]) < now then head[2] = now_ms end
  redis.call('ZADD', ready, head[2], ready_member)
  taken[4] = head[2]
else
  redis.call('ZREM', ready, ready_member)
end
return taken
