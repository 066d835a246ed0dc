-- Removes some lists of postings, as long as the state is the one that was read: another
-- worker may have removed all of them, and made new ones.
-- KEYS: postings, packed
-- ARGV: before, last
-- KEYS goes on with the lists. If last is 1, the state itself is removed, and what packs have.
-- Returns: {'cleared'} | {'conflict'}
local is = redis.call('GET', postings) or ''
if last == '1' and is == '' then return {'cleared'} end
if is ~= before then return {'conflict'} end
if last == '1' then redis.call('UNLINK', postings, packed) end
for i = named_keys + 1, #KEYS do redis.call('UNLINK', KEYS[i]) end
return {'cleared'}
