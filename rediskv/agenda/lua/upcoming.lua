-- What falls due next in a partition: of each queue the first score, of the exports
-- how many nobody has ended, of the dispatch stream how many entries are in somebody's
-- hands.
-- KEYS: due, cutoffs, payouts, activations, jobs, ready, exports, dispatch
-- ARGV: group
-- Returns: {'next', first score of each sorted set (or empty), …, exports, entries}
local found = {'next'}
for _, queue in ipairs({due, cutoffs, payouts, activations, jobs, ready}) do
  found[#found + 1] = redis.call('ZRANGE', queue, '0', '0', 'WITHSCORES')[2] or ''
end
found[#found + 1] = redis.call('XLEN', exports)
local pending = redis.pcall('XPENDING', dispatch, group) -- an error before there is a group
found[#found + 1] = not pending.err and pending[1] or 0
return found
