-- Closes an account's sales days up to one: from here on nothing is added to
-- them. Says when to look at the account next, unless there is something to be
-- paid that Go has not seen.
-- KEYS: 1 account, 2 payable, 3 cutoffs, 4 the operation's mark
-- ARGV: 1 account revision, 2 last closed day, 3 member, 4 when to look next
--   (ms; keep: as it is; none: not until there is something to be paid),
--   5 payout dates that Go has seen, with commas around
-- Returns: {'closed'} | {'done'} | {'stale'}
if earlier(KEYS[4]) then return {'done'} end
local now = redis.call('HMGET', KEYS[1], 'v', 'closed')
if now[1] ~= ARGV[1] then return {'stale'} end
if ARGV[4] ~= 'keep' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    local due = string.match(field, '^[^/]*')
    if not string.find(ARGV[5], ',' .. due .. ',', 1, true) then return {'stale'} end
  end
end

mark_done(KEYS[4], '')
if not now[2] or now[2] < ARGV[2] then redis.call('HSET', KEYS[1], 'closed', ARGV[2]) end
if ARGV[4] == 'none' then
  redis.call('ZREM', KEYS[3], ARGV[3])
elseif ARGV[4] ~= 'keep' then
  redis.call('ZADD', KEYS[3], ARGV[4], ARGV[3])
end
return {'closed'}
