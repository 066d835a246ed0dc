-- What falls due next in a partition: of each queue the first score, of the exports
-- how many nobody has ended, of the dispatch stream how many entries are in somebody's
-- hands; and whether there are any organizations.
-- KEYS: organizations, due, cutoffs, payouts, activations, jobs, ready, exports, dispatch
-- ARGV: group
-- Returns: {'next', first score of each sorted set (or empty), …, exports, entries, 1 or 0}
local pending = redis.pcall('XPENDING', dispatch, group) -- an error before there is a group
local hands = not pending.err and pending[1] or 0
-- Most partitions have nothing, and workers look at each of them: one command counts the
-- queues that are there, of which there are seven, and the organizations eight times.
local o = organizations
local there = redis.call('EXISTS', due, cutoffs, payouts, activations, jobs, ready, exports, o, o, o, o, o, o, o, o)
local lives = math.floor(there / 8)
if there % 8 == 0 then return {'next', '', '', '', '', '', '', 0, hands, lives} end
local found = {'next'}
for _, queue in ipairs({due, cutoffs, payouts, activations, jobs, ready}) do
  found[#found + 1] = redis.call('ZRANGE', queue, '0', '0', 'WITHSCORES')[2] or ''
end
found[#found + 1] = redis.call('XLEN', exports)
found[#found + 1] = hands
found[#found + 1] = lives
return found
