-- Commits a change, all of it or nothing. Each hash is written, or only compared,
-- if it still has the revision that the change was computed from.
-- KEYS: grant, record, sequences, events, audit, dispatch, webhooks, changes, mark
-- ARGV: operation, grant_version, fingerprint, record_lifetime, record_text, channel,
--   organization
-- Without channel no instance has to know. KEYS and ARGV go on with groups, whose
-- numbers are in ARGV:
--   objects (conflicting);
--   fields to remove: KEYS the hash; ARGV its name, or empty for all of the hash;
--   members of sets: KEYS the set; ARGV what becomes of it, member. That is a score in
--     a sorted set, remove (from one), look (at once, if it is there), add (to a set);
--   members to look at by a time: KEYS their sorted set, a key that must be there; ARGV
--     the time, member;
--   events and audit entries (append_all).
-- KEYS ends with the grants whose tokens end.
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'conflict'}
local instead = answered(grant, grant_version, record, operation, fingerprint, mark)
if instead then return instead end
if conflicting(named_keys + 1, named_args + 1) then return {'conflict'} end
local broken = sequenced(sequences)
if broken then return broken end

mark_done(mark, '')
if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
local key, at = put_objects(named_keys + 1, named_args + 1)
local fields = tonumber(ARGV[at])
at = at + 1
for _ = 1, fields do
  if ARGV[at] == '' then redis.call('DEL', KEYS[key]) else redis.call('HDEL', KEYS[key], ARGV[at]) end
  key, at = key + 1, at + 1
end
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
local wakes = tonumber(ARGV[at])
at = at + 1
for _ = 1, wakes do
  if redis.call('EXISTS', KEYS[key + 1]) == 1 then wake(KEYS[key], ARGV[at + 1], ARGV[at]) end
  key, at = key + 2, at + 2
end
append_all(sequences, events, audit, dispatch, webhooks, at)
raise(key)
if channel ~= '' then
  note_change(changes, organization)
  redis.call('PUBLISH', channel, organization)
end
return {'written'}
