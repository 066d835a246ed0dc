-- Burns an assertion and records what it was used for.
-- KEYS: client, grant, organization, rate, assertion, sequences, audit
-- ARGV: operation, client_revision, grant_version, organization_revision, burnt_lifetime,
--   rate_limit, audit_head, audit_tail, audit_envelope
-- Returns: {'used'} | {'done'} | {'replayed'} | {'stale'} | {'limited'}
local burnt = redis.call('GET', assertion)
if burnt == operation then return {'done'} end
if redis.call('HGET', client, 'v') ~= client_revision or not granted(grant, grant_version) or
   redis.call('HGET', organization, 'v') ~= organization_revision then
  return {'stale'}
end
if burnt then return {'replayed'} end
local refused = limited(rate, rate_limit)
if refused then return refused end

redis.call('SET', assertion, operation, 'PX', burnt_lifetime)
append_audit(sequences, audit, audit_head, audit_tail, audit_envelope)
return {'used'}
