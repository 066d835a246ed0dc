-- Closes an account's sales days up to one: from here on nothing is added to
-- them. Says when to look at the account next, unless there is something to be
-- paid that Go has not seen.
-- KEYS: account, payable, cutoffs, mark
-- ARGV: account_revision, last_closed, cutoffs_member, look_at, payout_dates
-- look_at is a time, keep (as it is) or none (not until there is something to be
-- paid). payout_dates are those that Go has seen, with commas around.
-- Returns: {'closed'} | {'done'} | {'stale'}
if earlier(mark) then return {'done'} end
local current = redis.call('HMGET', account, 'v', 'closed')
if current[1] ~= account_revision then return {'stale'} end
if look_at ~= 'keep' then
  for _, field in ipairs(redis.call('HKEYS', payable)) do
    local due = string.match(field, '^[^/]*')
    if not string.find(payout_dates, ',' .. due .. ',', 1, true) then return {'stale'} end
  end
end

mark_done(mark, '')
if not current[2] or current[2] < last_closed then redis.call('HSET', account, 'closed', last_closed) end
if look_at == 'none' then
  redis.call('ZREM', cutoffs, cutoffs_member)
elseif look_at ~= 'keep' then
  redis.call('ZADD', cutoffs, look_at, cutoffs_member)
end
return {'closed'}
