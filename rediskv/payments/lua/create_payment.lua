-- Creates a payment with its ticket, transactions, indexes, event, audit
-- entry and idempotency record; what is captured at once is to be paid. It is
-- counted in the limits of its perimeter, or not made if one has no room.
-- KEYS: grant, rate, record, payment, ticket, sequences, events, audit, due, moves, all_transactions,
--   account_transactions, part, account, organization, dispatch, webhooks, payable, refunds,
--   group, cutoffs
-- ARGV: operation, grant_version, rate_limit, fingerprint, record_lifetime, record_text, account_revision,
--   organization_revision, event_head, event_tail, event_id, event_type, event_account, event_envelope,
--   audit_head, audit_tail, audit_envelope, deadline, due_member, ticket_text, part_text, sales_day,
--   group_fields, captured, refunded, fees, capture_count, cutoffs_member, look_at,
--   counter_count, field_count
-- deadline, part_text and sales_day are empty where there is none; group_fields
-- is how the group's fields begin. moves is the hash of the payment's parts, where a capture
-- stands among the fields of the first transaction; or a list of transactions, and the
-- capture is part_text.
-- ARGV goes on with field_count values: the payment's fields. Then for each
-- transaction: KEYS its hash, the index of its status; ARGV index member, 1 if it
-- joins the group (or empty), how the names of its fields begin that scripts write,
-- number of fields, the fields. Then for each counter:
-- KEYS itself; ARGV what to add, its limit, its lifetime (empty: only where it
-- exists).
-- Returns: {'created'} | {'done'} | {'repeated', record} | {'reused', record} |
--   {'outdated', record} | {'damaged', key} | {'grant'} | {'limited'} | {'stale'} | {'toomuch'} | {'exhausted', number of the counter}
-- The last of what is created, done or repeated is the revision (revised).
local instead = answered(grant, grant_version, rate, rate_limit, record, operation, fingerprint)
if instead then return revised(sequences, instead) end
if redis.call('HGET', account, 'v') ~= account_revision or redis.call('HGET', organization, 'v') ~= organization_revision then
  return {'stale'}
end
-- Another payment's parts, whose identifiers are the same by chance: with the next ones
-- it will be made.
if redis.call('EXISTS', moves) == 1 then return {'stale'} end
local bar = sales_day ~= '' and barred(account, account_revision, sales_day, payable, refunds, group_fields)
if bar then return bar end
local broken, tell, last_numbers = sequenced(sequences)
if broken then return broken end
local counters = tonumber(counter_count)
local key, at = #KEYS - counters, #ARGV - 3 * counters
for i = 1, counters do
  -- All of them are far below 2^53.
  local used = counted(KEYS[key + i])
  if used == nil then return {'damaged', KEYS[key + i]} end
  if (used or 0) + tonumber(ARGV[at + 3 * i - 2]) > tonumber(ARGV[at + 3 * i - 1]) then
    return {'exhausted', whole(i)}
  end
end

redis.call('SET', record, record_text, 'PX', record_lifetime)
local untouched = {}
for i = 1, counters do
  local lifetime = ARGV[at + 3 * i]
  if lifetime ~= '' or redis.call('EXISTS', KEYS[key + i]) == 1 then
    redis.call('INCRBY', KEYS[key + i], ARGV[at + 3 * i - 2])
  else
    untouched[#untouched + 1] = 'use' .. whole(i - 1) -- the payment's field
  end
  if lifetime ~= '' then redis.call('PEXPIRE', KEYS[key + i], lifetime) end
end
redis.call('SET', ticket, ticket_text)
if part_text ~= '' then redis.call('SET', part, part_text) end
local last = named_args + tonumber(field_count)
redis.call('HSET', payment, unpack(ARGV, named_args + 1, last))
-- What was not counted is not given back: the counter may be another payee's by then.
-- The checksum was made with it, and the payment gets another with its next change.
for _, field in ipairs(untouched) do redis.call('HSET', payment, field, '-', 'e', format) end
if deadline ~= '' then redis.call('ZADD', due, deadline, due_member) end
if sales_day ~= '' then join(payable, refunds, group_fields, captured, refunded, fees, capture_count, cutoffs, cutoffs_member, look_at) end
local n, audit_number = next_numbers(sequences, last_numbers)
append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account, event_envelope, tell, n)
append_audit(sequences, audit, audit_head, audit_tail, audit_envelope, audit_number)
local position = n * 16
for key = named_keys + 1, #KEYS - counters, 2 do
  local member, begin, fields = ARGV[last + 1], ARGV[last + 3], tonumber(ARGV[last + 4])
  local at = whole(position)
  redis.call('HSET', KEYS[key], begin .. 'pos', at, unpack(ARGV, last + 5, last + 4 + fields))
  if all_transactions ~= sequences then redis.call('ZADD', all_transactions, at, member) end
  redis.call('ZADD', account_transactions, at, member)
  redis.call('ZADD', KEYS[key + 1], at, member)
  if ARGV[last + 2] ~= '' then redis.call('ZADD', group, at, member) end
  -- The authorization is named after the payment.
  if begin == '' and key > named_keys + 1 then redis.call('RPUSH', moves, member) end
  last = last + 4 + fields
  position = position + 1
end
return {'created', whole(n)}
