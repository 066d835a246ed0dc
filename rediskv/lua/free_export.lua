-- Takes an export off the tally of its organization's files once its file is
-- gone.
-- KEYS: 1 sizes, 2 files
-- ARGV: 1 export id
-- Returns: {'freed'}
free(KEYS[1], KEYS[2], ARGV[1])
return {'freed'}
