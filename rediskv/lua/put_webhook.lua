-- Creates, changes or removes a webhook endpoint, with event and audit entry.
-- KEYS: 1 grant, 2 idempotency record, 3 endpoint, 4 webhooks, 5 sequences,
--   6 events, 7 audit, 8 dispatch, 9 ready, 10 queue, 11 jobs,
--   12 the operation's mark
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 expected revision (empty: none), 7 endpoint id,
--   8 directory entry (empty: remove the endpoint), 9 now (ms),
--   10 ready member, 11 job (or empty), 12 most endpoints, 13 event head,
--   14 event tail, 15 event id, 16 event type (empty: no event), 17 audit head,
--   18 audit tail, 19 status, 20 URL, 21 number of fields, the fields
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'missing'} | {'conflict'} | {'full'}
local instead = answered(KEYS[1], ARGV[2], KEYS[2], ARGV[1], ARGV[3], KEYS[12])
if instead then return instead end
local now = redis.call('HMGET', KEYS[3], 'v', 'st', 'url')
if ARGV[6] ~= '' and not now[1] then return {'missing'} end
if (now[1] or '') ~= ARGV[6] then return {'conflict'} end
if ARGV[6] == '' and redis.call('HLEN', KEYS[4]) > tonumber(ARGV[12]) then return {'full'} end

mark_done(KEYS[12], '')
if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
redis.call('HINCRBY', KEYS[4], 'v', 1)
if ARGV[8] == '' then
  redis.call('HDEL', KEYS[4], ARGV[7])
  redis.call('DEL', KEYS[3])
  redis.call('ZREM', KEYS[9], ARGV[10])
else
  redis.call('HSET', KEYS[4], ARGV[7], ARGV[8])
  redis.call('HSET', KEYS[3], 'st', ARGV[19], unpack(ARGV, 22, 21 + tonumber(ARGV[21])))
  if ARGV[19] ~= 'active' then
    redis.call('ZREM', KEYS[9], ARGV[10])
  else
    if now[2] ~= 'active' or now[3] ~= ARGV[20] then -- its health begins anew
      redis.call('HSET', KEYS[3], 'fail', '0', 'ok', ARGV[9])
      redis.call('HDEL', KEYS[3], 'pause')
    end
    if redis.call('EXISTS', KEYS[10]) == 1 then wake(KEYS[9], ARGV[10], ARGV[9]) end
  end
end
if ARGV[11] ~= '' then redis.call('ZADD', KEYS[11], ARGV[9], ARGV[11]) end
if ARGV[16] ~= '' then
  append_event(KEYS[5], KEYS[6], KEYS[8], KEYS[4], ARGV[13], ARGV[14], ARGV[15], ARGV[16], '')
end
append_audit(KEYS[5], KEYS[7], ARGV[17], ARGV[18])
return {'written'}
