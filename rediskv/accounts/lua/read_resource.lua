-- Reads an organization, legal entity, merchant account, grant or client, and records
-- that it was read.
-- KEYS: grant, rate, resource, sequences, audit, mark
-- ARGV: grant_version, rate_limit, audit_head, audit_tail, audit_envelope
-- Returns: {'read', {field, value, …}} | {'missing'} | {'grant'} | {'limited'}
local again = earlier(mark)
local refused = not again and turned_away(grant, grant_version, rate, rate_limit)
if refused then return refused end
local found = redis.call('HGETALL', resource)
if #found == 0 then return {'missing'} end

if not again then
  mark_done(mark, '')
  append_audit(sequences, audit, audit_head, audit_tail, audit_envelope)
end
return {'read', found}
