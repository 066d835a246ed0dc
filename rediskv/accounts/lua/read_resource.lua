-- Reads an organization, legal entity, merchant account or grant, and records
-- that it was read.
-- KEYS: grant, resource, sequences, audit, mark
-- ARGV: grant_version, audit_head, audit_tail
-- Returns: {'read', revision, json, envelope} | {'missing'} | {'grant'}
local again = earlier(mark)
if not again and not granted(grant, grant_version) then return {'grant'} end
local found = redis.call('HMGET', resource, 'v', 'json', 'e')
if not found[1] and redis.call('EXISTS', resource) == 0 then return {'missing'} end

if not again then
  mark_done(mark, '')
  append_audit(sequences, audit, audit_head, audit_tail)
end
return {'read', found[1] or '', found[2] or '', found[3] or ''}
