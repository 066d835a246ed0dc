-- Gives an export back, begun or only claimed: the next worker that looks takes
-- it over at once, as one that nobody has renewed for long. That it was begun
-- counts as no try.
-- KEYS: 1 export, 2 exports, 3 the operation's mark
-- ARGV: 1 owner (as far as the worker knows), 2 group, 3 consumer, 4 entry,
--   5 how long (ms)
-- Returns: {'left'} | {'done'} | {'lost'}
if earlier(KEYS[3]) then return {'done'} end
local claim = redis.pcall('XPENDING', KEYS[2], ARGV[2], ARGV[4], ARGV[4], '1')
-- Without the group the entry will be handed out again anyway.
if claim.err then return {'left'} end
if not claim[1] or claim[1][2] ~= ARGV[3] then return {'lost'} end

mark_done(KEYS[3], '')
local now = redis.call('HMGET', KEYS[1], 'st', 'own', 'tries')
if now[1] == 'running' then
  redis.call('HSET', KEYS[1], 'own', '')
  if now[2] == ARGV[1] and tonumber(now[3] or '0') > 0 then redis.call('HINCRBY', KEYS[1], 'tries', -1) end
end
redis.call('XCLAIM', KEYS[2], ARGV[2], ARGV[3], '0', ARGV[4], 'IDLE', ARGV[5], 'JUSTID')
return {'left'}
