-- Appends the next chunk of a file together with the position behind its last
-- row, so that a worker that takes over goes on exactly there; and renews the
-- owner's hold of the export. Nothing is written for one that is no longer the
-- owner's, or has another number of chunks than the owner knows, or when the
-- organization's files would take up too much.
-- KEYS: 1 export, 2 chunk, 3 ends, 4 exports, 5 sizes, 6 files,
--   7 the operation's mark
-- ARGV: 1 owner, 2 chunks so far, 3 chunk (empty: none), 4 where it ends,
--   5 lifetime of the file (ms), 6 group, 7 consumer, 8 entry, 9 export id,
--   10 bytes that it takes up, 11 most bytes of files, 12 now (ms), 13 number of
--   fields, the fields
-- Returns: {'appended'} | {'done'} | {'lost'} | {'full'}
if earlier(KEYS[7]) then return {'done'} end
local now = redis.call('HMGET', KEYS[1], 'st', 'own', 'n')
if now[1] ~= 'running' or now[2] ~= ARGV[1] then return {'lost'} end
if now[3] ~= ARGV[2] then return {'lost'} end
local grows = ARGV[10] ~= '0'
if grows and taken(KEYS[5], KEYS[6], ARGV[12]) + tonumber(ARGV[10]) > tonumber(ARGV[11]) then return {'full'} end

mark_done(KEYS[7], '')
if grows then
  redis.call('HINCRBY', KEYS[5], ARGV[9], ARGV[10])
  redis.call('HINCRBY', KEYS[5], 'all', ARGV[10])
end
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[5])
  redis.call('RPUSH', KEYS[3], ARGV[4])
  redis.call('PEXPIRE', KEYS[3], ARGV[5])
  redis.call('HINCRBY', KEYS[1], 'n', 1)
end
redis.call('HSET', KEYS[1], 'tries', '0', unpack(ARGV, 14, 13 + tonumber(ARGV[13])))
-- Without the group the entry will be handed out again, and the owner changes.
redis.pcall('XCLAIM', KEYS[4], ARGV[6], ARGV[7], '0', ARGV[8], 'JUSTID')
return {'appended'}
