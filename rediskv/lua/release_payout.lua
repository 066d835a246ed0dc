-- Lets a payout go that was held: it is pending again, of what its transactions
-- add up to. What was held for another reason meanwhile stays.
-- KEYS: grant, record, payout, payouts, transaction, held_index, pending_index, sequences,
--   events, audit, dispatch, webhooks, mark
-- ARGV: operation, grant_version, fingerprint, record_lifetime, record_text, held_at,
--   stored_groups, groups, amount, now_ms, payouts_member, transaction_member, event_head,
--   event_tail, event_id, event_type, event_account, audit_head, audit_tail
-- Returns: {'released'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'conflict'}
local instead = answered(grant, grant_version, record, operation, fingerprint, mark)
if instead then return instead end
local now = redis.call('HMGET', payout, 'st', 'upd', 'grp')
local position = redis.call('ZSCORE', held_index, transaction_member)
if now[1] ~= 'held' or now[2] ~= held_at or now[3] ~= stored_groups or not position then return {'conflict'} end

mark_done(mark, '')
if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
redis.call('HSET', payout, 'st', 'pending', 'step', 'available', 'at', '0', 'grp', groups, 'sum', groups, 'upd', now_ms)
redis.call('HDEL', payout, 'held', 'lease')
redis.call('HSET', transaction, 'st', 'pending', 'amt', amount, 'upd', now_ms)
redis.call('ZREM', held_index, transaction_member)
redis.call('ZADD', pending_index, position, transaction_member)
redis.call('ZADD', payouts, now_ms, payouts_member)
append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account)
append_audit(sequences, audit, audit_head, audit_tail)
return {'released'}
