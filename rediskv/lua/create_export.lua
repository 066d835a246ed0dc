-- Stores a job that exports rows, and fixes how far it goes: nothing that is
-- committed later is in it. The rows are found in a log or in indexes.
-- KEYS: 1 grant, 2 export, 3 sequences, 4 events, 5 audit, 6 dispatch,
--   7 webhooks, 8 exports, 9 unfinished exports, 10 sizes, 11 files,
--   12 idempotency record, 13 all exports, 14 the log (without one, the
--   sequences), then the indexes
-- ARGV: 1 grant version, 2 event head, 3 event tail, 4 event id, 5 event type,
--   6 audit head, 7 audit tail, 8 operation, 9 fingerprint, 10 record
--   lifetime (ms), 11 record, 12 organization, 13 export id, 14 most
--   unfinished, 15 most bytes of files, 16 now (ms), 17 first position, 18 last
--   position (empty: the rows are in the log), 19 an id before those that are
--   still listed, 20 number of fields, the fields
-- Returns: {'created'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'many'} | {'full'}
if redis.call('EXISTS', KEYS[2]) == 1 then return {'done'} end
local instead = answered(KEYS[1], ARGV[1], KEYS[12], ARGV[8], ARGV[9])
if instead then return instead end
if redis.call('SCARD', KEYS[9]) >= tonumber(ARGV[14]) then return {'many'} end
if taken(KEYS[10], KEYS[11], ARGV[16]) >= tonumber(ARGV[15]) then return {'full'} end
local cut, total = ARGV[18], 0
if cut == '' then
  local last = redis.call('XREVRANGE', KEYS[14], '+', '-', 'COUNT', '1')[1]
  cut, total = last and last[1] or '0-0', redis.call('XLEN', KEYS[14])
else
  local now = tonumber(redis.call('HGET', KEYS[3], 'event') or '0') * 16 + 15
  if now < tonumber(cut) then cut = whole(now) end
  for i = 15, #KEYS do total = total + redis.call('ZCOUNT', KEYS[i], ARGV[17], cut) end
end

if ARGV[9] ~= '' then redis.call('SET', KEYS[12], ARGV[11], 'PX', ARGV[10]) end
local entry = redis.call('XADD', KEYS[8], '*', 'o', ARGV[12], 'e', ARGV[13])
redis.call('HSET', KEYS[2], 'st', 'pending', 'cut', cut, 'total', whole(total), 'entry', entry, 'n', '0', 'tries', '0',
  unpack(ARGV, 21, 20 + tonumber(ARGV[20])))
redis.call('SADD', KEYS[9], ARGV[13])
redis.call('ZADD', KEYS[13], '0', ARGV[13])
redis.call('ZREMRANGEBYLEX', KEYS[13], '-', '(' .. ARGV[19])
append_event(KEYS[3], KEYS[4], KEYS[6], KEYS[7], ARGV[2], ARGV[3], ARGV[4], ARGV[5], '')
append_audit(KEYS[3], KEYS[5], ARGV[6], ARGV[7])
return {'created'}
