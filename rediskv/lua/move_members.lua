-- Moves the next captures and fees of a payout to a status. The place up to
-- which this is done is compared and moved along, so that a repeat and a second
-- worker change nothing.
-- KEYS: 1 payout, 2 payouts, 3 index of the old status, 4 index of the new one,
--   then the hash of each transaction
-- ARGV: 1 step, 2 place, 3 next step, 4 next place, 5 new status, 6 payout id,
--   7 now (ms), 8 payouts member, then for each transaction: index member,
--   position
-- Returns: {'moved'} | {'passed'}
local now = redis.call('HMGET', KEYS[1], 'step', 'at')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return {'passed'} end

local arg = 9
for key = 5, #KEYS do
  local was = redis.call('HGET', KEYS[key], 'st')
  if was then
    redis.call('HSET', KEYS[key], 'st', ARGV[5], 'po', ARGV[6], 'upd', ARGV[7])
    -- What an earlier payout failed to pay is available already.
    if was ~= ARGV[5] then
      redis.call('ZREM', KEYS[3], ARGV[arg])
      redis.call('ZADD', KEYS[4], ARGV[arg + 1], ARGV[arg])
    end
  end
  arg = arg + 2
end
redis.call('HSET', KEYS[1], 'step', ARGV[3], 'at', ARGV[4])
if ARGV[3] == 'done' then redis.call('ZREM', KEYS[2], ARGV[8]) end
return {'moved'}
