-- Looks a request up among those that are remembered; writes nothing.
-- KEYS: 1 grant, 2 idempotency record
-- ARGV: 1 grant version, 2 fingerprint
-- Returns: {'new'} | {'repeated', record} | {'reused'} | {'grant'}
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
return remembered(KEYS[2], '', ARGV[2]) or {'new'}
