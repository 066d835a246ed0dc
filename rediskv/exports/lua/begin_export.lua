-- Makes a worker the owner of an export. Whoever owned it before can append no
-- more. An entry whose export has ended is removed.
-- KEYS: export, exports, mark
-- ARGV: owner, now_ms, group, entry, is_try
-- is_try is 1 where this counts as a try, else 0.
-- Returns: {'begun', {field, value, …}} | {'ended'}
local current = redis.call('HMGET', export, 'st', 'own')
local again = earlier(mark)
if again and current[2] ~= owner then return {'ended'} end -- for this worker: another has taken it over since
if current[1] ~= 'pending' and current[1] ~= 'running' then
  redis.call('XACK', exports, group, entry)
  redis.call('XDEL', exports, entry)
  return {'ended'}
end

if not again then
  mark_done(mark, '')
  redis.call('HSET', export, 'st', 'running', 'own', owner)
  redis.call('HSETNX', export, 'start', now_ms)
  if is_try == '1' then redis.call('HINCRBY', export, 'tries', 1) end
end
return {'begun', redis.call('HGETALL', export)}
