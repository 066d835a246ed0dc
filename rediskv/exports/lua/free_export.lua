-- Takes an export off the tally of its organization's files once its file is
-- gone, and those whose files are gone by themselves.
-- KEYS: sizes, files
-- ARGV: export_id, now_ms
-- Without export_id only the latter.
-- Returns: {'freed', bytes of all that are left}
if export_id ~= '' then free(sizes, files, export_id) end
return {'freed', whole(taken(sizes, files, now_ms))}
