-- Ends an export: its owner when it has succeeded or failed, a client when it
-- is canceled, or when the file of one that has succeeded is dropped. Its entry
-- is removed, so that nobody takes it up again. What its file takes up counts
-- until the file is gone.
-- KEYS: 1 grant, 2 export, 3 sequences, 4 events, 5 audit, 6 dispatch,
--   7 webhooks, 8 exports, 9 unfinished exports, 10 sizes, 11 files
-- ARGV: 1 grant version, 2 event head, 3 event tail, 4 event id, 5 event type
--   (empty: none), 6 audit head, 7 audit tail, 8 operation, 9 owner (empty: a
--   client), 10 chunks that the owner knows, 11 status, 12 lifetime of the
--   job (ms), 13 group, 14 export id, 15 when its file is gone by itself (ms),
--   16 number of fields, the fields
-- Returns: {'ended', number of chunks} | {'done', number of chunks} |
--   {'grant'} | {'missing'} | {'conflict'} | {'lost'}
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
local now = redis.call('HMGET', KEYS[2], 'st', 'own', 'n', 'op', 'entry')
if not now[1] then return {'missing'} end
if now[4] == ARGV[8] then return {'done', now[3]} end
if ARGV[9] ~= '' and (now[1] ~= 'running' or now[2] ~= ARGV[9] or now[3] ~= ARGV[10]) then return {'lost'} end
local dropped = ARGV[11] == 'expired'
if dropped and now[1] ~= 'succeeded' then return {'conflict'} end
if not dropped and now[1] ~= 'pending' and now[1] ~= 'running' then return {'conflict'} end

redis.call('HSET', KEYS[2], 'op', ARGV[8], 'st', ARGV[11], unpack(ARGV, 17, 16 + tonumber(ARGV[16])))
if ARGV[11] ~= 'succeeded' then redis.call('HDEL', KEYS[2], 'prev') end
redis.call('PEXPIRE', KEYS[2], ARGV[12])
redis.call('SREM', KEYS[9], ARGV[14])
if not dropped and redis.call('HEXISTS', KEYS[10], ARGV[14]) == 1 then redis.call('ZADD', KEYS[11], ARGV[15], ARGV[14]) end
redis.pcall('XACK', KEYS[8], ARGV[13], now[5])
redis.call('XDEL', KEYS[8], now[5])
if ARGV[5] ~= '' then
  append_event(KEYS[3], KEYS[4], KEYS[6], KEYS[7], ARGV[2], ARGV[3], ARGV[4], ARGV[5], '')
end
append_audit(KEYS[3], KEYS[5], ARGV[6], ARGV[7])
return {'ended', now[3]}
