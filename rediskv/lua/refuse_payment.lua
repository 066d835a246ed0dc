-- Remembers that a rule refused a payment, so that a repeat of the request
-- gets the same answer. No payment, ticket or event.
-- KEYS: grant, record, account, organization, sequences, audit
-- ARGV: operation, grant_version, fingerprint, record_lifetime, record_text, account_revision,
--   organization_revision, audit_head, audit_tail
-- Returns: {'refused'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'stale'}
local instead = answered(grant, grant_version, record, operation, fingerprint)
if instead then return instead end
if redis.call('HGET', account, 'v') ~= account_revision or redis.call('HGET', organization, 'v') ~= organization_revision then
  return {'stale'}
end

redis.call('SET', record, record_text, 'PX', record_lifetime)
append_audit(sequences, audit, audit_head, audit_tail)
return {'refused'}
