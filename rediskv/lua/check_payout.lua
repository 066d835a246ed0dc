-- Moves the recomputing of a payout's sum along, or ends it: the sum is right,
-- or the payout is held. The place up to which it is recomputed is compared, so
-- that each transaction counts once.
-- KEYS: payout, payouts, transaction, pending_index, held_index, sequences, events, audit,
--   dispatch, webhooks, mark
-- ARGV: place, groups, next_place, tally, verdict, now_ms, payouts_member, transaction_member,
--   held_reason, event_head, event_tail, event_id, event_type, event_account, audit_head,
--   audit_tail
-- verdict is more, right or held.
-- Returns: {'checked'} | {'passed'}
if earlier(mark) then return {'checked'} end
local now = redis.call('HMGET', payout, 'st', 'grp', 'tat', 'step')
if now[1] ~= 'pending' or now[2] ~= groups or (now[3] or '') ~= place then return {'passed'} end

mark_done(mark, '')
if verdict == 'more' then
  redis.call('HSET', payout, 'tat', next_place, 'tally', tally)
  return {'checked'}
end
redis.call('HDEL', payout, 'tat', 'tally')
if verdict == 'right' then
  redis.call('HSET', payout, 'sum', groups)
  if now[4] == 'check' then redis.call('HSET', payout, 'step', 'available', 'at', '0') end
  return {'checked'}
end
redis.call('HSET', payout, 'st', 'held', 'step', 'check', 'held', held_reason, 'upd', now_ms)
redis.call('HDEL', payout, 'sum')
redis.call('ZREM', payouts, payouts_member)
local position = redis.call('ZSCORE', pending_index, transaction_member)
if position then
  redis.call('HSET', transaction, 'st', 'held', 'upd', now_ms)
  redis.call('ZREM', pending_index, transaction_member)
  redis.call('ZADD', held_index, position, transaction_member)
end
append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account)
append_audit(sequences, audit, audit_head, audit_tail)
return {'checked'}
