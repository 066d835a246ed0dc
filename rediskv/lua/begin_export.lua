-- Makes a worker the owner of an export. Whoever owned it before can append no
-- more. An entry whose export has ended is removed.
-- KEYS: 1 export, 2 exports, 3 the operation's mark
-- ARGV: 1 owner, 2 now (ms), 3 group, 4 entry, 5 whether this counts as a try
--   (1 or 0)
-- Returns: {'begun', {field, value, …}} | {'ended'}
local now = redis.call('HMGET', KEYS[1], 'st', 'own')
local again = earlier(KEYS[3])
if again and now[2] ~= ARGV[1] then return {'ended'} end -- for this worker: another has taken it over since
if now[1] ~= 'pending' and now[1] ~= 'running' then
  redis.call('XACK', KEYS[2], ARGV[3], ARGV[4])
  redis.call('XDEL', KEYS[2], ARGV[4])
  return {'ended'}
end

if not again then
  mark_done(KEYS[3], '')
  redis.call('HSET', KEYS[1], 'st', 'running', 'own', ARGV[1])
  redis.call('HSETNX', KEYS[1], 'start', ARGV[2])
  if ARGV[5] == '1' then redis.call('HINCRBY', KEYS[1], 'tries', 1) end
end
return {'begun', redis.call('HGETALL', KEYS[1])}
