-- Begins the history of a partition that has none, and counts a process that starts.
-- With partitions it is for a Redis that was set up with so many, which meta says.
-- KEYS: history, mark, meta
-- ARGV: id, now_ms, envelope, partitions
-- Returns: {'begun', {field, value, …}} | {'other'}
if partitions ~= '' and redis.call('HGET', meta, 'partitions') ~= partitions then return {'other'} end
if not earlier(mark) then
  if redis.call('EXISTS', history) == 0 then
    redis.call('HSET', history, 'e', envelope, 'id', id, 'first', id, 'open', id, 'began', now_ms)
  end
  redis.call('HINCRBY', history, 'starts', 1)
  mark_done(mark, '')
end
return {'begun', redis.call('HGETALL', history)}
