-- Posts the transactions of more events: the next state takes the place of the one that
-- was read. A run that finds its own state has done so before. Behind another worker it is
-- too late, and that one's work is not touched.
-- KEYS: postings, times
-- ARGV: before, after, spans_at, spans
-- spans is written into times from the byte spans_at on. KEYS goes on with lists, ARGV
-- with what is added to each.
-- Returns: {'posted'} | {'conflict'}
local is = redis.call('GET', postings) or ''
if is ~= after then
  if is ~= before then return {'conflict'} end
  redis.call('SET', postings, after)
  redis.call('SETRANGE', times, spans_at, spans)
  for i = 1, #KEYS - named_keys do redis.call('APPEND', KEYS[named_keys + i], ARGV[named_args + i]) end
end
return {'posted'}
