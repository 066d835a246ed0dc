-- Gives an export back, begun or only claimed: the next worker that looks takes
-- it over at once, as one that nobody has renewed for long. That it was begun
-- counts as no try.
-- KEYS: export, exports, mark
-- ARGV: owner, group, consumer, entry, idle_ms
-- owner is whoever it is as far as the worker knows.
-- Returns: {'left'} | {'done'} | {'lost'}
if earlier(mark) then return {'done'} end
local claim = redis.pcall('XPENDING', exports, group, entry, entry, '1')
-- Without the group the entry will be handed out again anyway.
if claim.err then return {'left'} end
if not claim[1] or claim[1][2] ~= consumer then return {'lost'} end

mark_done(mark, '')
local current = redis.call('HMGET', export, 'st', 'own', 'tries')
if current[1] == 'running' then
  redis.call('HSET', export, 'own', '')
  if current[2] == owner and tonumber(current[3] or '0') > 0 then redis.call('HINCRBY', export, 'tries', -1) end
end
redis.call('XCLAIM', exports, group, consumer, '0', entry, 'IDLE', idle_ms, 'JUSTID')
return {'left'}
