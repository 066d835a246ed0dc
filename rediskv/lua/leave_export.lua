-- Gives an export back: the next worker that looks takes it over at once, as
-- one that nobody has renewed for long. That it was begun counts as no try.
-- KEYS: 1 export, 2 exports
-- ARGV: 1 owner, 2 group, 3 consumer, 4 entry, 5 how long (ms)
-- Returns: {'left'} | {'lost'}
local now = redis.call('HMGET', KEYS[1], 'st', 'own', 'tries')
if now[1] ~= 'running' or now[2] ~= ARGV[1] then return {'lost'} end

redis.call('HSET', KEYS[1], 'own', '')
if tonumber(now[3] or '0') > 0 then redis.call('HINCRBY', KEYS[1], 'tries', -1) end
-- Without the group the entry will be handed out again anyway.
redis.pcall('XCLAIM', KEYS[2], ARGV[2], ARGV[3], '0', ARGV[4], 'IDLE', ARGV[5], 'JUSTID')
return {'left'}
