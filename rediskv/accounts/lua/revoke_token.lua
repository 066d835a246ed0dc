-- Burns an assertion, and revokes an access token of its client. A token of another
-- version of its grant means nothing any more: then nothing is revoked. Those that have
-- expired leave the list. One too many raises the grant's version instead, which ends
-- all of its tokens.
-- KEYS: client, grant, organization, rate, assertion, sequences, audit, changes
-- ARGV: operation, client_revision, grant_version, organization_revision, burnt_lifetime,
--   rate_limit, audit_head, audit_tail, audit_envelope, token, kept_until, now, most, channel, organization_id
-- Times are in seconds.
-- Returns: {'used'} | {'done'} | {'replayed'} | {'stale'} | {'damaged', grant} | {'limited'}
local burnt = redis.call('GET', assertion)
if burnt == operation then return {'done'} end
if redis.call('HGET', client, 'v') ~= client_revision or redis.call('HGET', organization, 'v') ~= organization_revision then
  return {'stale'}
end
if burnt then return {'replayed'} end
local current = redis.call('HMGET', grant, 'v', 'v=', 'revoked', 'revoked=')
local live = current[1] == grant_version
if live and (current[3] ~= current[4] or not integers(current[1], current[2])) then return {'damaged', grant} end
local refused = limited(rate, rate_limit)
if refused then return refused end
local list = {token .. ':' .. kept_until}
for id, expires in string.gmatch(live and current[3] or '', '([%w_]+):(%d+)') do
  if id ~= token and tonumber(expires) > tonumber(now) then list[#list + 1] = id .. ':' .. expires end
end

redis.call('SET', assertion, operation, 'PX', burnt_lifetime)
append_audit(sequences, audit, audit_head, audit_tail, audit_envelope)
if live then
  if #list > tonumber(most) then
    raise_count(grant, 'v', '1')
    redis.call('HDEL', grant, 'revoked', 'revoked=')
  else
    local text = table.concat(list, ',')
    redis.call('HSET', grant, 'revoked', text, 'revoked=', text)
  end
  note_change(changes, organization_id)
  redis.call('PUBLISH', channel, organization_id)
end
return {'used'}
