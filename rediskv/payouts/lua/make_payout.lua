-- Makes a payout of groups that are to be paid, with its transaction, event and
-- audit entry, and takes the groups out. The sales day of its date is closed, so
-- that the groups are what Go has read or somebody else has taken them.
-- KEYS: account, payable, refunds, payout, sequences, events, audit, dispatch, webhooks, transaction,
--   status_index, all_transactions, account_transactions, payout_transactions, payouts
-- ARGV: payout_date, event_head, event_tail, event_id, event_type, event_account, event_envelope, audit_head,
--   audit_tail, audit_envelope, payouts_member, now_ms, transaction_member, payable_count
-- ARGV goes on with payable_count fields and values of what is to be paid, their
-- number and those of what was refunded of it, the number of the payout's fields, these, the number of the transaction's, these.
-- Returns: {'made', revision} | {'done', revision} | {'early'} | {'conflict'} | {'damaged', key}
if redis.call('EXISTS', payout) == 1 then return revised(sequences, {'done'}) end
local closed = redis.call('HGET', account, 'closed')
if not closed or closed < payout_date then return {'early'} end
local groups = tonumber(payable_count)
for i = named_args + 1, named_args + groups, 2 do
  if redis.call('HGET', payable, ARGV[i]) ~= ARGV[i + 1] then return {'conflict'} end
end
local given = named_args + 1 + groups
local refunded = tonumber(ARGV[given])
for i = given + 1, given + refunded, 2 do
  if redis.call('HGET', refunds, ARGV[i]) ~= ARGV[i + 1] then return {'conflict'} end
end
local broken, tell, last_numbers = sequenced(sequences)
if broken then return broken end

for i = named_args + 1, named_args + groups, 2 do redis.call('HDEL', payable, ARGV[i]) end
for i = given + 1, given + refunded, 2 do redis.call('HDEL', refunds, ARGV[i]) end
local at = given + 1 + refunded
redis.call('HSET', payout, values(at + 1, ARGV[at]))
at = at + 1 + tonumber(ARGV[at])
local n, audit_number = next_numbers(sequences, last_numbers)
append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account, event_envelope, tell, n)
append_audit(sequences, audit, audit_head, audit_tail, audit_envelope, audit_number)
local position = whole(n * 16)
redis.call('HSET', transaction, 'pos', position, values(at + 1, ARGV[at]))
for _, index in ipairs({status_index, all_transactions, account_transactions, payout_transactions}) do
  if index ~= sequences then redis.call('ZADD', index, position, transaction_member) end
end
redis.call('ZADD', payouts, now_ms, payouts_member)
return revised(sequences, {'made'})
