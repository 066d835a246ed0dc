-- Notes that what a pack has is removed from Redis.
-- KEYS: archive
-- ARGV: number
-- Returns: {'ended'} | {'conflict'}
if (redis.call('HGET', archive, 'n') or '0') ~= number then return {'conflict'} end
redis.call('HSET', archive, 'done', number)
return {'ended'}
