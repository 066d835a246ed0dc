-- Puts a payment back that was moved to an archive, because it is to be changed: all of
-- its records and its entries in lists, unless it is there. It is noted, so that it is moved
-- again in time.
-- KEYS: payment, ticket, parts, returned, fence
-- ARGV: payment_id, now_ms, ticket_text, payment_count, erased
-- erased is what fence had before the payment was read, empty for nothing.
-- KEYS goes on with lists, which may come twice, and ARGV with an entry for each: its place
-- and its member. Then ARGV goes on with payment_count fields and values of the payment, and
-- with those of its parts.
-- Returns: {'returned'} | {'there'} | {'conflict'}
if redis.call('EXISTS', payment) == 1 then return {'there'} end
if (redis.call('GET', fence) or '') ~= erased then return {'conflict'} end
redis.call('ZADD', returned, now_ms, payment_id)
redis.call('SET', ticket, ticket_text)
local first = named_args
for key = named_keys + 1, #KEYS do
  redis.call('ZADD', KEYS[key], ARGV[first + 1], ARGV[first + 2])
  first = first + 2
end
local last = first + tonumber(payment_count)
redis.call('HSET', payment, unpack(ARGV, first + 1, last))
for i = last + 1, #ARGV, 2 do redis.call('HSET', parts, ARGV[i], ARGV[i + 1]) end
return {'returned'}
