-- Writes rules, activations and the accounts that they move, all of it or
-- nothing. Each hash is written, or only compared, if it still has the revision
-- that the change was computed from.
-- KEYS: grant, record, sequences, events, audit, dispatch, webhooks, changes, mark
-- ARGV: operation, grant_version, fingerprint, record_lifetime, record_text, channel,
--   organization
-- Without channel nobody has to know. Then the objects (conflicting), the number of
-- members of sorted sets and for each: KEYS the set; ARGV score (empty: remove),
-- member. Then the events and audit entries (append_all).
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'conflict'}
local instead = answered(grant, grant_version, record, operation, fingerprint, mark)
if instead then return instead end
if conflicting(named_keys + 1, named_args + 1) then return {'conflict'} end

mark_done(mark, '')
if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
local key, at = put_objects(named_keys + 1, named_args + 1)
local sets = tonumber(ARGV[at])
at = at + 1
for i = 0, sets - 1 do
  if ARGV[at] == '' then
    redis.call('ZREM', KEYS[key + i], ARGV[at + 1])
  else
    redis.call('ZADD', KEYS[key + i], ARGV[at], ARGV[at + 1])
  end
  at = at + 2
end
append_all(sequences, events, audit, dispatch, webhooks, at)
if channel ~= '' then
  note_change(changes, organization)
  redis.call('PUBLISH', channel, organization)
end
return {'written'}
