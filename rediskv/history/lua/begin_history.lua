-- Begins the history of a partition that has none, and counts a process that starts.
-- With an empty id it begins none: who counts itself has seen one, so that has been lost.
-- KEYS: history, mark
-- ARGV: id, now_ms, envelope
-- Returns: {'begun', {field, value, …}}
if not earlier(mark) then
  if redis.call('EXISTS', history) == 0 then
    if id == '' then return {'begun', {}} end
    redis.call('HSET', history, 'e', envelope, 'id', id, 'first', id, 'open', id, 'began', now_ms)
  end
  redis.call('HINCRBY', history, 'starts', 1)
  mark_done(mark, '')
end
return {'begun', redis.call('HGETALL', history)}
