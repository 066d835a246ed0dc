-- Compares a caller's grant, beside reads that are no script.
-- KEYS: grant, rate
-- ARGV: grant_version, rate_limit
-- Returns: {'granted'} | {'grant'} | {'limited'}
return turned_away(grant, grant_version, rate, rate_limit) or {'granted'}
