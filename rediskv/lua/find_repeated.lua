-- Looks a request up among those that are remembered; writes nothing.
-- KEYS: grant, record
-- ARGV: operation, grant_version, fingerprint
-- operation is a new one of the client's.
-- Returns: {'new'} | {'repeated', record} | {'reused', record} |
--   {'outdated', record} | {'damaged', key} | {'grant'}
return answered(grant, grant_version, record, operation, fingerprint) or {'new'}
