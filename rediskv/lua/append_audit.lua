-- Appends one entry to an organization's audit record.
-- KEYS: 1 sequences, 2 audit
-- ARGV: 1 audit head, 2 audit tail
-- Returns: {'appended'}
append_audit(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
return {'appended'}
