-- Looks a request up among those that are remembered; writes nothing.
-- KEYS: grant, rate, record
-- ARGV: operation, grant_version, rate_limit, fingerprint
-- operation is a new one of the client's.
-- Returns: {'new'} | {'repeated', record} | {'reused', record} |
--   {'outdated', record} | {'damaged', key} | {'grant'} | {'limited'}
return answered(grant, grant_version, rate, rate_limit, record, operation, fingerprint) or {'new'}
