-- Seals more of an audit record: the next document takes the place of the one that was
-- read, together with the tiles that have changed and a checkpoint. A run that finds its
-- own document has done so before. Behind another sealer it is too late, and that one's
-- work is not touched.
-- KEYS: tree, checkpoints
-- ARGV: before, after, checkpoint, checkpoint_envelope, kept
-- kept is how many checkpoints stay. KEYS goes on with the tiles, ARGV with their texts.
-- Returns: {'sealed'} | {'conflict'}
local is = redis.call('GET', tree) or ''
if is ~= after then
  if is ~= before then return {'conflict'} end
  redis.call('SET', tree, after)
  for i = 1, #KEYS - named_keys do redis.call('SET', KEYS[named_keys + i], ARGV[named_args + i]) end
  redis.call('XADD', checkpoints, 'MAXLEN', kept, '*', 'b', checkpoint, 'e', checkpoint_envelope)
end
return {'sealed'}
