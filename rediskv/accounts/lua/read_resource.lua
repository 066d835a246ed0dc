-- Reads an organization, legal entity, merchant account, grant or client, and records
-- that it was read.
-- KEYS: grant, resource, sequences, audit, mark
-- ARGV: grant_version, audit_head, audit_tail, audit_envelope
-- Returns: {'read', {field, value, …}} | {'missing'} | {'grant'}
local again = earlier(mark)
if not again and not granted(grant, grant_version) then return {'grant'} end
local found = redis.call('HGETALL', resource)
if #found == 0 then return {'missing'} end

if not again then
  mark_done(mark, '')
  append_audit(sequences, audit, audit_head, audit_tail, audit_envelope)
end
return {'read', found}
