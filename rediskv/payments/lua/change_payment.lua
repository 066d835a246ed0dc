-- Moves a payment to its next state: capture, cancel, review, expiry, refund. Go has
-- computed the whole change from payment_revision, whose event is event_before; if
-- the payment has moved on since, nothing is written. A Redis that has lost its
-- latest writes counts from an earlier revision again, and its events are others. What it gives back to the limits of its perimeter
-- is counted down, if that window is still kept. A counter that is no number
-- keeps nobody's payment from its end: it stays as it is.
-- KEYS: grant, rate, record, payment, ticket, sequences, events, audit, due, moves, all_transactions,
--   account_transactions, part, authorization, old_index, new_index, dispatch, webhooks,
--   account, payable, refunds, group, cutoffs
-- ARGV: operation, grant_version, rate_limit, fingerprint, record_lifetime, record_text, payment_revision,
--   event_before, packed_ids, now_ms, event_head, event_tail, event_id, event_type, event_account, event_envelope, audit_head,
--   audit_tail, audit_envelope, deadline, due_member, ticket_text, part_text, actor, authorization_member,
--   folds, authorization_field, new_status, sales_day, account_revision, group_fields, captured, refunded, fees,
--   capture_count, cutoffs_member, look_at, counter_count, field_count
-- actor is client, clock or refund, which no deadline ends. deadline, part_text and sales_day are empty where
-- there is none; group_fields is how the group's fields begin, authorization_field how
-- those of the authorization that scripts write. moves and part_text are as in create_payment.
-- packed_ids are event_id and event_before as they stand in a packed ticket, ten bytes each.
-- ARGV goes on with field_count values: the payment's fields, of which there are the folded
-- ones in pieces where folds is 1. What is folded is not written otherwise; what is not, is
-- from then on. Then for each new
-- transaction: KEYS its hash, the index of its status; ARGV index member, 1 if it
-- joins the group (or empty), how the names of its fields begin that scripts write,
-- number of fields, the fields. Then for each counter:
-- KEYS itself; ARGV what it gets back.
-- Returns: {'changed', counters that are no numbers} | {'done'} | {'repeated', record} | {'reused', record} |
--   {'outdated', record} | {'damaged', key} | {'grant'} | {'limited'} | {'missing'} | {'conflict'} | {'expired'} | {'early'} |
--   {'stale'} | {'toomuch'} | {'folded'}
-- The last of what is changed, done or repeated is the revision (revised).
-- The ticket refers to every event of its payment; nobody else mints this one.
-- Where it is packed, that stands there without its prefix, evt_, in binary or, by an
-- earlier build, as text.
local function refers(id, packed)
  local text = redis.call('GET', ticket) or ''
  return packed ~= '' and string.find(text, packed, 1, true) or string.find(text, string.sub(id, 5), 1, true)
end
local function done() return refers(event_id, string.sub(packed_ids, 1, 10)) end
local instead = answered(grant, grant_version, rate, rate_limit, record, operation, fingerprint)
if instead then return revised(sequences, (instead[1] == 'grant' or instead[1] == 'limited') and done() and {'done'} or instead) end
local current = redis.call('HMGET', payment, 'v', 'due', 'p', 'era')
if not current[1] then return {'missing'} end
-- What was erased since is not written again from what was read before: nothing follows it.
if current[1] ~= payment_revision or current[4] or (event_before ~= '' and not refers(event_before, string.sub(packed_ids, 11))) then
  return done() and revised(sequences, {'done'}) or {'conflict'}
end
if current[3] and folds == '' then return {'folded'} end
local past = current[2] and current[2] ~= '' and tonumber(current[2]) <= tonumber(now_ms)
if actor == 'client' and past then return {'expired'} end
if actor == 'clock' and not past then return {'early'} end
local bar = sales_day ~= '' and barred(account, account_revision, sales_day, payable, refunds, group_fields)
if bar then return bar end
local broken, tell, last_numbers = sequenced(sequences)
if broken then return broken end
local place = placed(old_index, authorization_member, authorization, authorization_field .. 'pos')
if not place then return {'damaged', authorization_field == '' and authorization or payment} end

if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
redis.call('SET', ticket, ticket_text)
if part_text ~= '' then redis.call('SET', part, part_text) end
local counters, damaged = tonumber(counter_count), {}
for i = 0, counters - 1 do
  local counter, back = KEYS[#KEYS - i], ARGV[#ARGV - i]
  -- Who is paid does not wait for a counter that cannot be read.
  local used = counted(counter)
  if used then redis.call('DECRBY', counter, back) end
  if used == nil then damaged[#damaged + 1] = counter end
end
local last = named_args + tonumber(field_count)
if folds ~= '' then
  -- Its counters stay. Of what was folded there may have been more.
  local was = current[3] and {} or redis.call('HGETALL', payment)
  if current[3] then redis.call('HDEL', payment, 'due', 'e', 'p+', 'p++', 'p+++') else redis.call('DEL', payment) end
  for i = 1, #was, 2 do
    if string.sub(was[i], 1, 3) == 'use' then redis.call('HSET', payment, was[i], was[i + 1]) end
  end
end
redis.call('HSET', payment, unpack(ARGV, named_args + 1, last))
if sales_day ~= '' then join(payable, refunds, group_fields, captured, refunded, fees, capture_count, cutoffs, cutoffs_member, look_at) end
if deadline ~= '' then
  redis.call('ZADD', due, deadline, due_member)
else
  redis.call('ZREM', due, due_member)
end
local n, audit_number = next_numbers(sequences, last_numbers)
append_event(sequences, events, dispatch, webhooks, event_head, event_tail, event_id, event_type, event_account, event_envelope, tell, n)
append_audit(sequences, audit, audit_head, audit_tail, audit_envelope, audit_number)
redis.call('HSET', authorization, authorization_field .. 'st', new_status, authorization_field .. 'upd', now_ms)
if old_index ~= new_index then
  redis.call('ZREM', old_index, authorization_member)
  redis.call('ZADD', new_index, place, authorization_member)
end
local position = n * 16
for key = named_keys + 1, #KEYS - counters, 2 do
  local member, begin, fields = ARGV[last + 1], ARGV[last + 3], tonumber(ARGV[last + 4])
  local at = whole(position)
  redis.call('HSET', KEYS[key], begin .. 'pos', at, unpack(ARGV, last + 5, last + 4 + fields))
  if all_transactions ~= sequences then redis.call('ZADD', all_transactions, at, member) end
  redis.call('ZADD', account_transactions, at, member)
  redis.call('ZADD', KEYS[key + 1], at, member)
  if ARGV[last + 2] ~= '' then redis.call('ZADD', group, at, member) end
  if begin == '' then redis.call('RPUSH', moves, member) end
  last = last + 4 + fields
  position = position + 1
end
damaged[#damaged + 1] = whole(n)
return {'changed', unpack(damaged)}
