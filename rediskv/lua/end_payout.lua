-- Records what the payout step said: paid or failed. The first record counts.
-- What a failed payout was to pay is to be paid again, on a date that is not
-- closed yet.
-- KEYS: payout, payouts, transaction, in_transit_index, new_index, sequences, events, audit,
--   dispatch, webhooks, account, payable, cutoffs
-- ARGV: outcome, failure, now_ms, payouts_member, transaction_member, event_head, event_tail,
--   event_id, event_type, event_account, audit_head, audit_tail, new_date, cutoffs_member,
--   look_at, payable_count
-- outcome is paid or failed. ARGV goes on with payable_count fields and values of
-- what is to be paid; then what the payout step calls it (or empty).
-- Returns: {'recorded'} | {'passed'} | {'stale'} | {'damaged', key}
if redis.call('HGET', payout, 'step') ~= 'pay' then return {'passed'} end
local closed = redis.call('HGET', account, 'closed')
if outcome == 'failed' and closed and closed >= new_date then return {'stale'} end
local broken, tell = sequenced(sequences)
if broken then return broken end
local place = placed(in_transit_index, transaction_member, transaction)
if not place then return {'damaged', transaction} end

redis.call('HSET', transaction, 'st', outcome, 'upd', now_ms)
if ARGV[#ARGV] ~= '' then
  redis.call('HSET', payout, 'ref', ARGV[#ARGV])
  redis.call('HSET', transaction, 'ref', ARGV[#ARGV])
end
redis.call('ZREM', in_transit_index, transaction_member)
redis.call('ZADD', new_index, place, transaction_member)
if outcome == 'paid' then
  redis.call('HSET', payout, 'st', 'paid', 'step', 'settle', 'at', '0', 'upd', now_ms)
  redis.call('ZADD', payouts, now_ms, payouts_member)
else
  redis.call('HSET', payout, 'st', 'failed', 'step', 'done', 'why', failure, 'upd', now_ms)
  redis.call('ZREM', payouts, payouts_member)
  redis.call('HSET', payable, values(named_args + 1, payable_count))
  wake(cutoffs, cutoffs_member, look_at)
end
append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account, tell)
append_audit(sequences, audit, audit_head, audit_tail)
return {'recorded'}
