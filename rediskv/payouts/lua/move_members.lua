-- Moves the next captures and fees of a payout to a status. The place up to
-- which this is done is compared and moved along, so that a repeat and a second
-- worker change nothing.
-- KEYS: payout, payouts, old_index, new_index
-- ARGV: step, place, next_step, next_place, new_status, payout_id, now_ms, payouts_member
-- Then for each transaction: KEYS its hash; ARGV index member, position, how the names of
-- its fields begin.
-- Returns: {'moved'} | {'passed'}
local current = redis.call('HMGET', payout, 'step', 'at')
if current[1] ~= step or current[2] ~= place then return {'passed'} end

local arg = named_args + 1
for key = named_keys + 1, #KEYS do
  local begin = ARGV[arg + 2]
  local was = redis.call('HGET', KEYS[key], begin .. 'st')
  if was then
    redis.call('HSET', KEYS[key], begin .. 'st', new_status, begin .. 'po', payout_id, begin .. 'upd', now_ms)
    -- What an earlier payout failed to pay is available already.
    if was ~= new_status then
      redis.call('ZREM', old_index, ARGV[arg])
      redis.call('ZADD', new_index, ARGV[arg + 1], ARGV[arg])
    end
  end
  arg = arg + 3
end
redis.call('HSET', payout, 'step', next_step, 'at', next_place)
if next_step == 'done' then redis.call('ZREM', payouts, payouts_member) end
return {'moved'}
