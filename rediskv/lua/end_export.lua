-- Ends an export: its owner when it has succeeded or failed, a client when it
-- is canceled. Its entry is removed, so that nobody takes it up again.
-- KEYS: 1 grant, 2 export, 3 sequences, 4 events, 5 audit, 6 dispatch,
--   7 webhooks, 8 exports, 9 unfinished exports
-- ARGV: 1 grant version, 2 event head, 3 event tail, 4 event id, 5 event type
--   (empty: none), 6 audit head, 7 audit tail, 8 operation, 9 owner (empty: a
--   client), 10 chunks that the owner knows, 11 status, 12 lifetime of the
--   job (ms), 13 group, 14 export id, 15 number of fields, the fields
-- Returns: {'ended', number of chunks} | {'done'} | {'grant'} | {'missing'} |
--   {'conflict'} | {'lost'}
if not granted(KEYS[1], ARGV[1]) then return {'grant'} end
local now = redis.call('HMGET', KEYS[2], 'st', 'own', 'n', 'op', 'entry')
if not now[1] then return {'missing'} end
if now[4] == ARGV[8] then return {'done'} end
if ARGV[9] ~= '' and (now[1] ~= 'running' or now[2] ~= ARGV[9] or now[3] ~= ARGV[10]) then return {'lost'} end
if now[1] ~= 'pending' and now[1] ~= 'running' then return {'conflict'} end

redis.call('HSET', KEYS[2], 'op', ARGV[8], 'st', ARGV[11], unpack(ARGV, 16, 15 + tonumber(ARGV[15])))
redis.call('PEXPIRE', KEYS[2], ARGV[12])
redis.call('SREM', KEYS[9], ARGV[14])
redis.pcall('XACK', KEYS[8], ARGV[13], now[5])
redis.call('XDEL', KEYS[8], now[5])
if ARGV[5] ~= '' then
  append_event(KEYS[3], KEYS[4], KEYS[6], KEYS[7], ARGV[2], ARGV[3], ARGV[4], ARGV[5], '')
end
append_audit(KEYS[3], KEYS[5], ARGV[6], ARGV[7])
return {'ended', now[3]}
