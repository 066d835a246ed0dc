-- Reads an organization, legal entity, merchant account or grant, and records
-- that it was read.
-- KEYS: 1 grant, 2 resource, 3 sequences, 4 audit, 5 the operation's mark
-- ARGV: 1 grant version, 2 audit head, 3 audit tail
-- Returns: {'read', revision, json} | {'missing'} | {'grant'}
local again = earlier(KEYS[5])
if not again and not granted(KEYS[1], ARGV[1]) then return {'grant'} end
local found = redis.call('HMGET', KEYS[2], 'v', 'json')
if not found[1] and redis.call('EXISTS', KEYS[2]) == 0 then return {'missing'} end

if not again then
  mark_done(KEYS[5], '')
  append_audit(KEYS[3], KEYS[4], ARGV[2], ARGV[3])
end
return {'read', found[1] or '', found[2] or ''}
