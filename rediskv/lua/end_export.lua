-- Ends an export: its owner when it has succeeded or failed, a client when it
-- is canceled, or when the file of one that has succeeded is dropped. Its entry
-- is removed, so that nobody takes it up again. What its file takes up counts
-- until the file is gone.
-- KEYS: 1 grant, 2 export, 3 sequences, 4 events, 5 audit, 6 dispatch,
--   7 webhooks, 8 exports, 9 unfinished exports, 10 sizes, 11 files,
--   12 the operation's mark
-- ARGV: 1 grant version, 2 event head, 3 event tail, 4 event id, 5 event type
--   (empty: none), 6 audit head, 7 audit tail, 8 owner (empty: a client),
--   9 chunks that the owner knows, 10 status, 11 lifetime of the job (ms),
--   12 group, 13 export id, 14 when its file is gone by itself (ms), 15 number
--   of fields, the fields
-- Returns: {'ended', number of chunks} | {'done', number of chunks} |
--   {'grant'} | {'missing'} | {'conflict'} | {'lost'}
local chunks = earlier(KEYS[12])
if chunks then return {'done', chunks} end
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
local now = redis.call('HMGET', KEYS[2], 'st', 'own', 'n', 'entry')
if not now[1] then return {'missing'} end
if ARGV[8] ~= '' and (now[1] ~= 'running' or now[2] ~= ARGV[8] or now[3] ~= ARGV[9]) then return {'lost'} end
local dropped = ARGV[10] == 'expired'
if dropped and now[1] ~= 'succeeded' then return {'conflict'} end
if not dropped and now[1] ~= 'pending' and now[1] ~= 'running' then return {'conflict'} end

mark_done(KEYS[12], now[3])
redis.call('HSET', KEYS[2], 'st', ARGV[10], unpack(ARGV, 16, 15 + tonumber(ARGV[15])))
if ARGV[10] ~= 'succeeded' then redis.call('HDEL', KEYS[2], 'prev') end
redis.call('PEXPIRE', KEYS[2], ARGV[11])
redis.call('SREM', KEYS[9], ARGV[13])
if not dropped and redis.call('HEXISTS', KEYS[10], ARGV[13]) == 1 then redis.call('ZADD', KEYS[11], ARGV[14], ARGV[13]) end
redis.pcall('XACK', KEYS[8], ARGV[12], now[4])
redis.call('XDEL', KEYS[8], now[4])
if ARGV[5] ~= '' then
  append_event(KEYS[3], KEYS[4], KEYS[6], KEYS[7], ARGV[2], ARGV[3], ARGV[4], ARGV[5], '')
end
append_audit(KEYS[3], KEYS[5], ARGV[6], ARGV[7])
return {'ended', now[3]}
