-- Remembers that a rule refused a payment, so that a repeat of the request
-- gets the same answer. No payment, ticket or event.
-- KEYS: 1 grant, 2 idempotency record, 3 account, 4 organization,
--   5 sequences, 6 audit
-- ARGV: 1 operation, 2 grant version, 3 fingerprint, 4 record lifetime (ms),
--   5 record, 6 account revision, 7 organization revision, 8 audit head,
--   9 audit tail
-- Returns: {'refused'} | {'done'} | {'repeated', record} | {'reused'} |
--   {'damaged', key} | {'grant'} | {'stale'}
local instead = answered(KEYS[1], ARGV[2], KEYS[2], ARGV[1], ARGV[3])
if instead then return instead end
if redis.call('HGET', KEYS[3], 'v') ~= ARGV[6] or redis.call('HGET', KEYS[4], 'v') ~= ARGV[7] then
  return {'stale'}
end

redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4])
append_audit(KEYS[5], KEYS[6], ARGV[8], ARGV[9])
return {'refused'}
