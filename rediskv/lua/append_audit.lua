-- Appends one entry to an organization's audit record.
-- KEYS: sequences, audit, rate, mark
-- ARGV: rate_limit, audit_head, audit_tail, audit_envelope
-- Returns: {'appended'} | {'done'} | {'limited'}
if earlier(mark) then return {'done'} end
local refused = limited(rate, rate_limit)
if refused then return refused end

mark_done(mark, '')
append_audit(sequences, audit, audit_head, audit_tail, audit_envelope)
return {'appended'}
