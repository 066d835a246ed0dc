-- Appends the next chunk of a file together with the position behind its last
-- row, so that a worker that takes over goes on exactly there; and renews the
-- owner's hold of the export. Nothing is written for one that is no longer the
-- owner's, or has another number of chunks than the owner knows, or when the
-- organization's files would take up too much.
-- KEYS: 1 export, 2 chunk, 3 ends, 4 exports, 5 sizes, 6 files
-- ARGV: 1 owner, 2 operation, 3 chunks so far, 4 chunk (empty: none),
--   5 where it ends, 6 lifetime of the file (ms), 7 group, 8 consumer, 9 entry,
--   10 export id, 11 bytes that it takes up, 12 most bytes of files, 13 now
--   (ms), 14 number of fields, the fields
-- Returns: {'appended'} | {'done'} | {'lost'} | {'full'}
local now = redis.call('HMGET', KEYS[1], 'st', 'own', 'n', 'op')
if now[1] ~= 'running' or now[2] ~= ARGV[1] then return {'lost'} end
if now[4] == ARGV[2] then return {'done'} end
if now[3] ~= ARGV[3] then return {'lost'} end
local grows = ARGV[11] ~= '0'
if grows and taken(KEYS[5], KEYS[6], ARGV[13]) + tonumber(ARGV[11]) > tonumber(ARGV[12]) then return {'full'} end

if grows then
  redis.call('HINCRBY', KEYS[5], ARGV[10], ARGV[11])
  redis.call('HINCRBY', KEYS[5], 'all', ARGV[11])
end
if ARGV[4] ~= '' then
  redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[6])
  redis.call('RPUSH', KEYS[3], ARGV[5])
  redis.call('PEXPIRE', KEYS[3], ARGV[6])
  redis.call('HINCRBY', KEYS[1], 'n', 1)
end
redis.call('HSET', KEYS[1], 'op', ARGV[2], 'tries', '0', unpack(ARGV, 15, 14 + tonumber(ARGV[14])))
-- Without the group the entry will be handed out again, and the owner changes.
redis.pcall('XCLAIM', KEYS[4], ARGV[7], ARGV[8], '0', ARGV[9], 'JUSTID')
return {'appended'}
