-- Writes what time it is here, which shows that this server takes writes.
-- KEYS: heartbeat
-- ARGV: lifetime
-- Returns: {'beat', seconds, microseconds}
local now = redis.call('TIME')
redis.call('SET', heartbeat, whole(tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)), 'PX', lifetime)
return {'beat', now[1], now[2]}
