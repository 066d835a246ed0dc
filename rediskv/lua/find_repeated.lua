-- Looks a request up among those that are remembered; writes nothing.
-- KEYS: 1 grant, 2 idempotency record
-- ARGV: 1 grant version, 2 fingerprint, 3 an operation of the client
-- Returns: {'new'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'}
return answered(KEYS[1], ARGV[1], KEYS[2], ARGV[3], ARGV[2]) or {'new'}
