-- Writes entries of a log anew, in its head or in a segment that is a stream: each keeps its
-- id and its place. All others stay as they are. Who has read the log before, to make a
-- segment of it, learns of it by the count.
-- KEYS: stream, rewritten
-- ARGV: entries
-- ARGV goes on with four for each of entries: its id, the SHA-1 of its field b, and the
-- fields b and e that it gets.
-- Returns: {'rewritten', number of entries} | {'other'}
local changes, count = {}, 0
for i = named_args + 1, named_args + 4 * tonumber(entries), 4 do
  local is = redis.call('XRANGE', stream, ARGV[i], ARGV[i])[1]
  if is then
    for n = 1, #is[2], 2 do
      if is[2][n] == 'b' and redis.sha1hex(is[2][n + 1]) == ARGV[i + 1] then
        changes[ARGV[i]] = i
        count = count + 1
      end
    end
  end
end
if count == 0 then return {'other'} end
local all = redis.call('XRANGE', stream, '-', '+')
redis.call('INCR', rewritten)
redis.call('UNLINK', stream)
for _, entry in ipairs(all) do
  local i, fields = changes[entry[1]], entry[2]
  if i then
    for n = 1, #fields, 2 do
      if fields[n] == 'b' then fields[n + 1] = ARGV[i + 2] end
      if fields[n] == 'e' then fields[n + 1] = ARGV[i + 3] end
    end
  end
  redis.call('XADD', stream, entry[1], unpack(fields))
end
return {'rewritten', whole(count)}
