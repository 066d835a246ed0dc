-- Appends the next chunk of a file together with the position behind its last
-- row, so that a worker that takes over goes on exactly there; and renews the
-- owner's hold of the export. Nothing is written for one that is no longer the
-- owner's, or has another number of chunks than the owner knows, or when the
-- organization's files would take up too much.
-- KEYS: export, chunk, ends, exports, sizes, files, mark
-- ARGV: owner, chunks, chunk_text, end_offset, file_lifetime, group, consumer, entry,
--   export_id, bytes, most_bytes, now_ms, field_count
-- Without chunk_text there is no chunk: the rows end at end_offset of the file.
-- ARGV goes on with field_count values: the export's fields.
-- Returns: {'appended'} | {'done'} | {'lost'} | {'full'}
if earlier(mark) then return {'done'} end
local current = redis.call('HMGET', export, 'st', 'own', 'n')
if current[1] ~= 'running' or current[2] ~= owner then return {'lost'} end
if current[3] ~= chunks then return {'lost'} end
local grows = bytes ~= '0'
if grows and taken(sizes, files, now_ms) + tonumber(bytes) > tonumber(most_bytes) then return {'full'} end

mark_done(mark, '')
if grows then
  redis.call('HINCRBY', sizes, export_id, bytes)
  redis.call('HINCRBY', sizes, 'all', bytes)
end
if chunk_text ~= '' then
  redis.call('SET', chunk, chunk_text, 'PX', file_lifetime)
  redis.call('RPUSH', ends, end_offset)
  redis.call('PEXPIRE', ends, file_lifetime)
  redis.call('HINCRBY', export, 'n', 1)
end
redis.call('HSET', export, 'tries', '0', values(named_args + 1, field_count))
-- Without the group the entry will be handed out again, and the owner changes.
redis.pcall('XCLAIM', exports, group, consumer, '0', entry, 'JUSTID')
return {'appended'}
