-- Uses up a proof of possession.
-- KEYS: proof
-- ARGV: operation, lifetime
-- Returns: {'burned'} | {'done'} | {'replayed'}
local burnt = redis.call('GET', proof)
if burnt == operation then return {'done'} end
if burnt then return {'replayed'} end
redis.call('SET', proof, operation, 'PX', lifetime)
return {'burned'}
