-- Commits a change, all of it or nothing. Each hash is written, or only compared,
-- if it still has the revision that the change was computed from.
-- KEYS: grant, rate, record, sequences, events, audit, dispatch, webhooks, changes, mark
-- ARGV: operation, grant_version, rate_limit, fingerprint, record_lifetime, record_text, channel,
--   organization
-- Without channel no instance has to know. Then what must be as it was read: how
-- often, and for each: KEYS what is read; ARGV the command, the number of its
-- arguments, these, what it answers. Then the objects (conflicting); the number of
-- further writes and for each: KEYS what it changes; ARGV the command, the field that
-- keeps its answer, of the hash that is the next of KEYS (or empty), the number of
-- its arguments, these. Then the events and audit entries (append_all). KEYS goes on
-- with the grants whose tokens end.
-- Returns: {'written'} | {'done'} | {'repeated', record} | {'reused', record} |
--   {'outdated', record} | {'damaged', key} | {'grant'} | {'limited'} | {'conflict'}
-- The last of what is written, done or repeated is the revision (revised).
local instead = answered(grant, grant_version, rate, rate_limit, record, operation, fingerprint, mark)
if instead then return revised(sequences, instead) end
local key, at = named_keys + 1, named_args + 2
for _ = 1, tonumber(ARGV[named_args + 1]) do
  local last = at + 1 + tonumber(ARGV[at + 1])
  local found = redis.call(ARGV[at], KEYS[key], unpack(ARGV, at + 2, last)) or ''
  if type(found) == 'number' then found = whole(found) end
  local same = found == ARGV[last + 1]
  if ARGV[at] == 'ZSCORE' then same = tonumber(found) == tonumber(ARGV[last + 1]) end -- releases of Redis print fractions differently
  if not same then return {'conflict'} end
  key, at = key + 1, last + 2
end
if conflicting(key, at) then return {'conflict'} end
local broken, tell = sequenced(sequences)
if broken then return broken end

mark_done(mark, '')
if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end
key, at = put_objects(key, at)
local writes = tonumber(ARGV[at])
at = at + 1
local sooner = {} -- the partition's own queues, whose workers are told
for _ = 1, writes do
  local last = at + 2 + tonumber(ARGV[at + 2])
  local answer = redis.call(ARGV[at], KEYS[key], unpack(ARGV, at + 3, last))
  if (ARGV[at] == 'ZADD' or ARGV[at] == 'XADD') and string.find(KEYS[key], '^{[^}]*}:%l+$') then sooner[KEYS[key]] = true end
  if ARGV[at + 1] ~= '' then
    key = key + 1
    redis.call('HSET', KEYS[key], ARGV[at + 1], answer)
  end
  key, at = key + 1, last + 1
end
append_all(sequences, events, audit, dispatch, webhooks, at, tell)
raise(key)
for queue in pairs(sooner) do tell_workers(queue) end
if channel ~= '' then
  note_change(changes, organization)
  redis.call('PUBLISH', channel, organization)
end
return revised(sequences, {'written'})
