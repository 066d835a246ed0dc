-- Queues deliveries again: for a replay, or as the next batch of a recovery. A
-- replay sends one delivery now, unless it is being sent; it ends the pause of
-- its endpoint, because whoever asks for it knows that the receiver is back. A
-- recovery takes what was held or given up. The place that it has come to is
-- compared and moved along, so that each batch counts once, whichever worker is
-- faster.
-- KEYS: 1 grant, 2 idempotency record, 3 endpoint, 4 queue, 5 open, 6 ready,
--   7 sequences, 8 events, 9 audit, 10 dispatch, 11 webhooks, 12 the replay or
--   recovery, 13 jobs, 14 the operation's mark, then for each delivery: its
--   hash, its attempts
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 now (ms), 7 ready member, 8 trigger, 9 replay id (or empty),
--   10 event head, 11 event tail, 12 event id, 13 event type (empty: none),
--   14 audit head (empty: none), 15 audit tail, 16 a new job (or empty),
--   17 the place that the recovery has come to (empty: none), 18 number of
--   fields of the replay or recovery, the fields, then for each delivery: id,
--   time (ms)
-- Returns: {'queued', count} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'missing'} | {'busy'} | {'passed'}
local instead = answered(KEYS[1], ARGV[2], KEYS[2], ARGV[1], ARGV[3], KEYS[14])
if instead then return instead end
local now = redis.call('HMGET', KEYS[12], 'at', 'state')
if ARGV[17] ~= '' and (now[1] ~= ARGV[17] or now[2] == 'succeeded') then return {'passed'} end
local status = redis.call('HGET', KEYS[3], 'st')
if not status then return {'missing'} end
local idle = {held = true, failed = true}
if ARGV[8] == 'replay' then
  local state = redis.call('HGET', KEYS[#KEYS - 1], 'st') -- the one delivery
  if not state then return {'missing'} end
  if state == 'sending' then return {'busy'} end
  idle[state] = true
end

mark_done(KEYS[14], '')
if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4]) end
local arg = 19 + tonumber(ARGV[18])
local count = 0
for key = 15, #KEYS, 2 do
  local state = redis.call('HGET', KEYS[key], 'st')
  if state and idle[state] then
    count = count + 1
    redis.call('HSET', KEYS[key], 'st', 'pending', 'run', '0', 'trig', ARGV[8], 'rpl', ARGV[9])
    redis.call('HDEL', KEYS[key], 'cat', 'nat')
    if ARGV[8] == 'replay' then redis.call('HINCRBY', KEYS[key], 'rc', 1) end
    redis.call('PERSIST', KEYS[key])
    redis.call('PERSIST', KEYS[key + 1])
    redis.call('ZADD', KEYS[4], ARGV[6], ARGV[arg])
    redis.call('ZADD', KEYS[5], ARGV[arg + 1], ARGV[arg])
  end
  arg = arg + 2
end
if ARGV[8] == 'replay' then redis.call('HDEL', KEYS[3], 'pause') end
if count > 0 and status == 'active' then wake(KEYS[6], ARGV[7], ARGV[6]) end
redis.call('HSET', KEYS[12], unpack(ARGV, 19, 18 + tonumber(ARGV[18])))
if ARGV[8] == 'recovery' then redis.call('HINCRBY', KEYS[12], 'queued', count) end
redis.call('PEXPIRE', KEYS[12], '2592000000') -- 30 days, as deliveries
if ARGV[16] ~= '' then redis.call('ZADD', KEYS[13], ARGV[6], ARGV[16]) end
if ARGV[13] ~= '' then
  append_event(KEYS[7], KEYS[8], KEYS[10], KEYS[11], ARGV[10], ARGV[11], ARGV[12], ARGV[13], '')
end
if ARGV[14] ~= '' then append_audit(KEYS[7], KEYS[9], ARGV[14], ARGV[15]) end
return {'queued', whole(count)}
