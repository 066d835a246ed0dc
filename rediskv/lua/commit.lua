-- Commits a change, all of it or nothing. Each hash is written, or only compared,
-- if it still has the revision that the change was computed from.
-- KEYS: grant, record, sequences, events, audit, dispatch, webhooks, changes, mark
-- ARGV: operation, grant_version, fingerprint, record_lifetime, record_text, channel,
--   organization
-- Without channel no instance has to know. Then the objects (conflicting); the number
-- of members of sets and for each: KEYS the set; ARGV what to do with it, member.
-- That is a score in a sorted set, remove (from one), look (at once, if it is there)
-- or add (to a set). Then the events and audit entries (append_all). KEYS goes on
-- with the grants whose tokens end.
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'conflict'}
local instead = answered(grant, grant_version, record, operation, fingerprint, mark)
if instead then return instead end
if conflicting(named_keys + 1, named_args + 1) then return {'conflict'} end

mark_done(mark, '')
if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
local key, at = put_objects(named_keys + 1, named_args + 1)
local members = tonumber(ARGV[at])
at = at + 1
for _ = 1, members do
  local set, how, member = KEYS[key], ARGV[at], ARGV[at + 1]
  if how == 'remove' then
    redis.call('ZREM', set, member)
  elseif how == 'look' then
    redis.call('ZADD', set, 'XX', '0', member)
  elseif how == 'add' then
    redis.call('SADD', set, member)
  else
    redis.call('ZADD', set, how, member)
  end
  key, at = key + 1, at + 2
end
append_all(sequences, events, audit, dispatch, webhooks, at)
raise(key)
if channel ~= '' then
  note_change(changes, organization)
  redis.call('PUBLISH', channel, organization)
end
return {'written'}
