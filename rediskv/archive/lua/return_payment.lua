-- Puts a payment back that was moved to an archive, because it is to be changed: all of
-- its records, unless it is there. It is noted, so that it is moved again in time.
-- KEYS: payment, ticket, parts, returned
-- ARGV: payment_id, now_ms, ticket_text, payment_count
-- ARGV goes on with payment_count fields and values of the payment, and then with those of
-- its parts.
-- Returns: {'returned'} | {'there'}
if redis.call('EXISTS', payment) == 1 then return {'there'} end
redis.call('ZADD', returned, now_ms, payment_id)
redis.call('SET', ticket, ticket_text)
local last = named_args + tonumber(payment_count)
redis.call('HSET', payment, unpack(ARGV, named_args + 1, last))
for i = last + 1, #ARGV, 2 do redis.call('HSET', parts, ARGV[i], ARGV[i + 1]) end
return {'returned'}
