-- Appends one entry to an organization's audit record.
-- KEYS: 1 sequences, 2 audit, 3 the operation's mark
-- ARGV: 1 audit head, 2 audit tail
-- Returns: {'appended'} | {'done'}
if earlier(KEYS[3]) then return {'done'} end

mark_done(KEYS[3], '')
append_audit(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
return {'appended'}
