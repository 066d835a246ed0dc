-- Takes an export off the tally of its organization's files once its file is
-- gone.
-- KEYS: sizes, files
-- ARGV: export_id
-- Returns: {'freed'}
free(sizes, files, export_id)
return {'freed'}
