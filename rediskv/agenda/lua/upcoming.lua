-- What falls due next in a partition: of each queue the first score, of the exports
-- how many nobody has ended, of the dispatch stream how many entries are in somebody's
-- hands.
-- KEYS: due, cutoffs, payouts, activations, jobs, ready, exports, dispatch
-- ARGV: group
-- Returns: {'next', first score of each sorted set (or empty), …, exports, entries}
local pending = redis.pcall('XPENDING', dispatch, group) -- an error before there is a group
local hands = not pending.err and pending[1] or 0
-- Most partitions have nothing, and workers look at each of them.
if redis.call('EXISTS', due, cutoffs, payouts, activations, jobs, ready, exports) == 0 then return {'next', '', '', '', '', '', '', 0, hands} end
local found = {'next'}
for _, queue in ipairs({due, cutoffs, payouts, activations, jobs, ready}) do
  found[#found + 1] = redis.call('ZRANGE', queue, '0', '0', 'WITHSCORES')[2] or ''
end
found[#found + 1] = redis.call('XLEN', exports)
found[#found + 1] = hands
return found
