-- Burns an assertion and records the token that it bought.
-- KEYS: 1 client, 2 grant, 3 organization, 4 assertion, 5 sequences, 6 audit
-- ARGV: 1 operation, 2 client revision, 3 grant version,
--   4 organization revision, 5 lifetime of the burnt assertion (ms),
--   6 audit head, 7 audit tail
-- Returns: {'issued'} | {'done'} | {'replayed'} | {'stale'}
local burnt = redis.call('GET', KEYS[4])
if burnt == ARGV[1] then return {'done'} end
if redis.call('HGET', KEYS[1], 'v') ~= ARGV[2] or redis.call('HGET', KEYS[2], 'v') ~= ARGV[3] or
   redis.call('HGET', KEYS[3], 'v') ~= ARGV[4] then
  return {'stale'}
end
if burnt then return {'replayed'} end

redis.call('SET', KEYS[4], ARGV[1], 'PX', ARGV[5])
append_audit(KEYS[5], KEYS[6], ARGV[6], ARGV[7])
return {'issued'}
