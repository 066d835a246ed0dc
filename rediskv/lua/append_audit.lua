-- Appends one entry to an organization's audit record.
-- KEYS: sequences, audit, mark
-- ARGV: audit_head, audit_tail, audit_envelope
-- Returns: {'appended'} | {'done'}
if earlier(mark) then return {'done'} end

mark_done(mark, '')
append_audit(sequences, audit, audit_head, audit_tail, audit_envelope)
return {'appended'}
