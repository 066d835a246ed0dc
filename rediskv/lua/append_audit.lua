-- Appends one entry to an organization's audit record.
-- KEYS: 1 sequences, 2 audit
-- ARGV: 1 audit head, 2 audit tail
-- Returns: {'appended'}
if not audited(KEYS[2], ARGV[1]) then append_audit(KEYS[1], KEYS[2], ARGV[1], ARGV[2]) end
return {'appended'}
