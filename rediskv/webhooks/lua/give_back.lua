-- Ends the leases of a run of take_work whose answer never came, or whose
-- deliveries cannot be sent: the next attempts need not wait until they run out. The
-- run may still be on its way here; then it finds its mark, and takes nothing.
-- KEYS: ready, endpoint, queue, leases, mark
-- ARGV: now_ms, ready_member, candidate_count
-- ARGV goes on with candidate_count ids, those that the run was offered.
-- Returns: {'ended', count}
local count = tonumber(candidate_count)
local first = earlier(mark)
local ended, queued = {}, {}
if first then
  local marks, lease_end = leased_by(first)
  local held, real = redis.call('ZMSCORE', leases, values(named_args + 1, count)), whole(real_time())
  for i = 1, count do
    if string.sub(marks, i, i) ~= '0' and held[i] and tonumber(held[i]) == tonumber(lease_end) then
      ended[#ended + 1], ended[#ended + 2] = real, ARGV[named_args + i]
      queued[#queued + 1], queued[#queued + 2] = now_ms, ARGV[named_args + i]
    end
  end
  if #ended == 0 then return {'ended', 0} end
end

mark_done(mark, string.rep('0', count) .. ' 0')
if #ended > 0 then
  redis.call('ZADD', leases, unpack(ended))
  redis.call('ZADD', queue, unpack(queued))
  if redis.call('HGET', endpoint, 'st') == 'active' then wake(ready, ready_member, now_ms) end
end
return {'ended', #ended / 2}
