-- Writes what is found or decided of a history, if it is as it was read: what one
-- process decides the others adopt.
-- KEYS: history
-- ARGV: known_id, known_loss, field_count
-- ARGV goes on with the fields as they are to be, instead of what is there, but for
-- how many processes have started.
-- Returns: {'decided', {field, value, …}}
local current = redis.pcall('HMGET', history, 'id', 'lost', 'starts') -- an error where the key holds no hash
if current.err then current = {} end
if not current[1] or (current[1] == known_id and (current[2] or '') == known_loss) then
  redis.call('DEL', history)
  redis.call('HSET', history, values(named_args + 1, field_count))
  local starts = current[3] and string.find(current[3], '^%d+$') and current[3] or '1'
  redis.call('HSET', history, 'starts', starts)
end
return {'decided', redis.call('HGETALL', history)}
