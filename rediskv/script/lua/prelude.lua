-- Blocks, separated by empty lines. In front of a script stand those that it needs, then
-- a local variable for every name in its header, behind KEYS and ARGV. named_keys and
-- named_args say how many, and so where repeated groups begin. Times are in milliseconds.
-- Decide first, write last: nothing rolls back. Outcomes are returned as
-- values. Numbers become text only through whole(): Lua prints 1e+14.

-- The envelope of a record that a script makes (package record).
local format = '1'

-- The history within which a guarded script writes (package history).
local history_id = ''

-- That of the record of a request, which may have a codec.
local function known(envelope) return envelope == format or string.find(envelope, '^' .. format .. ';[pd]?;%x+$') end

local function whole(n) return string.format('%.0f', n) end

-- A repeated group of arguments.
local function values(first, count) return unpack(ARGV, first, first - 1 + tonumber(count)) end

-- The grant's version is the token's, so a revoked grant commits nothing. Behind the
-- version stands the token, which is none of those that were revoked one by one. Where
-- their list differs from its copy, nobody knows.
local function granted(key, version)
  if version == '' then return true end
  local current = redis.call('HMGET', key, 'v', 'revoked', 'revoked=')
  local wanted, token = string.match(version, '^(%d+) ?(.*)$')
  if current[1] ~= wanted or current[2] ~= current[3] then return false end
  return not current[2] or token == '' or not string.find(',' .. current[2], ',' .. token .. ':', 1, true)
end

-- What the limit of a request has left once it is counted, which stands behind every
-- outcome: how many more may come, and the microseconds until it is full and until one
-- more may come (0: this one may). Empty when nothing was counted.
--
-- limited counts a request in a bucket (package gcra) by Redis' time: limit is the
-- microseconds between two and the burst, or empty. It returns the outcome of one
-- that is too many. A bucket that cannot be read is full. A Redis that takes no writes
-- counts nothing, and reads go on.
local rate_left = ''
local function limited(rate, limit)
  local interval, burst = string.match(limit, '^(%d+) (%d+)$')
  if not interval then return nil end
  interval = tonumber(interval)
  local span, time = interval * tonumber(burst), redis.call('TIME')
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local arrival = redis.pcall('GET', rate)
  local digits = type(arrival) == 'string' and string.match(arrival, '^%d+$')
  arrival = digits and #digits <= 16 and tonumber(digits) or now
  arrival = math.min(math.max(arrival, now), now + span)
  local after = arrival + interval
  if after > now + span then
    rate_left = '0 ' .. whole(arrival - now) .. ' ' .. whole(after - now - span)
    return {'limited'}
  end
  redis.pcall('SET', rate, whole(after), 'PX', whole(math.ceil((after - now) / 1000)))
  rate_left = whole(math.floor((now + span - after) / interval)) .. ' ' .. whole(after - now) .. ' 0'
end

-- Why a request goes no further: the grant, or the limit that it is counted in.
local function turned_away(grant, version, rate, limit)
  if not granted(grant, version) then return {'grant'} end
  return limited(rate, limit)
end

-- Raises a count, and writes a copy beside it, by which damage of either is found.
local function raise_count(key, name, by)
  redis.call('HSET', key, name .. '=', redis.call('HINCRBY', key, name, by))
end

-- Ends the tokens of the grants from KEYS[first] on: each names its grant's
-- version as it was.
local function raise(first)
  for i = first, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 1 then raise_count(KEYS[i], 'v', '1') end
  end
end

-- The client library sends a script again when the reply to it is lost. Anything
-- may have happened in between, so a script looks for what its first run made,
-- never for the last change of an object: the payment, capture or event whose id
-- was minted before, or the mark of its operation, a key of its own. A mark
-- outlives every call to Redis, and holds what was answered. earlier is that, or
-- nil.
local function earlier(mark) return redis.call('GET', mark) or nil end

local function mark_done(mark, answered) redis.call('SET', mark, answered, 'PX', '300000') end

-- mark_done unless there is a mark, and earlier, in one command.
local function claim(mark, answered) return redis.call('SET', mark, answered, 'NX', 'GET', 'PX', '300000') or nil end

-- When an operation was begun, by the clock of the service that began it: its id
-- says it in its first ten places (a ULID). nil for one that has no such id.
local ulid = '0123456789abcdefghjkmnpqrstvwxyz'
local function begun(operation)
  local id = string.match(operation, '^[^ ]-(%w+)$') or string.match(operation, '^[^ ]-(%w+) ')
  if not id or #id ~= 26 then return nil end
  local at = 0
  for i = 1, 10 do
    local digit = string.find(ulid, string.sub(id, i, i), 1, true)
    if not digit then return nil end
    at = at * 32 + digit - 1
  end
  return at
end

-- The operation and the fingerprint in the record of a request; of one in binary (codec d,
-- record/request.go) the beginning of the fingerprint, and true. nil for what is no such record.
local function remembered_in(record)
  if type(record) ~= 'string' then return nil end
  if string.sub(record, 2, 4) ~= ';d;' then return string.match(record, '^(%w[^\n]*)\n(%x+)\n[2-5]%d%d\n[^\n]*\n') end
  if #record < 64 then return nil end
  local line, rest, bits = string.sub(record, 1, 13), 0, 2
  for i = 14, 45 do -- the identifiers of the operation and of its client
    if i == 30 then line, bits = line .. ' cli_', 2 end
    rest, bits = rest * 256 + string.byte(record, i), bits + 8
    while bits >= 5 do
      bits = bits - 5
      local digit = math.floor(rest / 2 ^ bits)
      rest, line = rest % 2 ^ bits, line .. string.sub(ulid, digit + 1, digit + 1)
    end
  end
  local print = ''
  for i = 46, 61 do print = print .. string.format('%02x', string.byte(record, i)) end
  return line, print, true
end

-- How long an Idempotency-Key is remembered (caller.go), by the clock of the
-- service. The lifetime of the record in Redis is longer: it only makes room.
local remembered = 604800000

-- What a request is answered with instead of being carried out, or nil: 'done'
-- (this very operation has run before), 'grant', 'limited', or what its idempotency record
-- says: 'repeated', 'reused' or 'outdated'. Without a fingerprint there is no record; a second
-- one, behind a space, is what earlier releases made of the request. The record's
-- first line is its operation: its envelope and a slash, an id, a space, the client, who alone may use the
-- key again; an old one has no envelope or no client. A record that is not of this form is
-- 'damaged': whether the request was carried out is not known, so it is neither
-- carried out nor the client's fault. One that is old enough is 'outdated'. Damage may
-- have made it so: the store compares its checksum and sends the script again, with the
-- envelope behind the fingerprints. mark is the operation's mark, or nil when the script
-- looks for itself.
local function answered(grant, version, rate, limit, key, operation, fingerprint, mark)
  if mark and earlier(mark) then return {'done'} end
  local record = fingerprint ~= '' and redis.pcall('GET', key) -- an error where the key holds no string
  local op, stored, short
  if record then
    op, stored, short = remembered_in(record)
    if op == operation then return {'done'} end
  end
  local refused = turned_away(grant, version, rate, limit)
  if refused then return refused end
  if not record then return nil end
  local client = op and string.match(op, ' ([^ ]+)')
  local of = op and string.match(op, '^([^ ]*)/')
  if not op or (of and not known(of)) or #stored ~= (short and 32 or 64) or (client and not string.find(client, '^cli_[%w_]+$')) then return {'damaged', key} end
  if client and client ~= string.match(operation, ' ([^ ]+)') then return {'reused', record} end
  local first, now = begun(op), begun(operation)
  if first and now and now - first >= remembered then
    if not of or of == format or string.find(fingerprint, ' ' .. of, 1, true) then return nil end
    return {'outdated', record}
  end
  if string.find(' ' .. fingerprint .. ' ', ' ' .. stored .. (short and '' or ' '), 1, true) then return {'repeated', record} end
  return {'reused', record}
end

-- Whether all of some values are integers, or not there: adding to anything else
-- raises in the middle of what is written.
local function integers(...)
  for _, v in ipairs({...}) do
    if v and not string.find(v, '^%-?%d+$') then return false end
  end
  return true
end

-- Nothing is written that its event could not be written with.
-- Returns why not, the channel of who waits for events, or false, and the last numbers.
local function sequenced(seq)
  local current = redis.call('HMGET', seq, 'event', 'audit', 'tell')
  return not integers(current[1], current[2]) and {'damaged', seq} or nil, current[3], current
end

-- The numbers of the next event and the next audit entry: one command for both.
local function next_numbers(seq, last)
  local event, audit = tonumber(last[1] or '0') + 1, tonumber(last[2] or '0') + 1
  redis.call('HSET', seq, 'event', whole(event), 'audit', whole(audit))
  return event, audit
end

-- What a writer is told, and behind it the number of the organization's last event:
-- who reads elsewhere knows by it whether what is read there has the change.
local function revised(seq, outcome)
  outcome[#outcome + 1] = redis.call('HGET', seq, 'event') or ''
  return outcome
end

-- What a counter of a limit holds: false when it is not there, nil when it is no
-- number that can be counted further (counters.go reads it alike).
local function counted(key)
  local text = redis.pcall('GET', key) -- an error where the key holds no string
  if not text then return false end
  if type(text) ~= 'string' then return nil end
  local digits = text == '0' and text or string.match(text, '^%-?([1-9]%d*)$')
  return digits and #digits <= 15 and tonumber(text) or nil
end

-- Events about endpoints and deliveries are never delivered: they would feed on
-- themselves. Without an endpoint there is nobody to hand an event over to. Where
-- somebody waits for events the sequences name the channel that tells of them; a
-- Redis that does not let us speak there must not undo what is written.
local function append_event(seq, stream, dispatch, hooks, head, tail, id, kind, account, envelope, tell, n)
  n = n or redis.call('HINCRBY', seq, 'event', 1)
  local given = whole(n) .. ',"history_id":"' .. history_id .. '"'
  local sum = string.sub(redis.sha1hex(stream .. given), 1, 8) -- the envelope's is of what Go has written
  -- Behind the envelope stands the trace of the request, if it has one.
  local trace = string.find(envelope, ' ', 1, true)
  local at
  if trace then
    at = redis.call('XADD', stream, '*', 'i', id, 't', kind, 'a', account, 'b', head .. given .. tail,
      'e', string.sub(envelope, 1, trace - 1) .. sum, 'p', string.sub(envelope, trace + 1))
  else
    at = redis.call('XADD', stream, '*', 'i', id, 't', kind, 'a', account, 'b', head .. given .. tail, 'e', envelope .. sum)
  end
  if redis.call('EXISTS', hooks) == 1 and not string.find(kind, '^webhook_endpoint%.') and not string.find(kind, '^delivery%.') then
    local org = string.match(stream, '^{[^}]*}:(.*):events$')
    redis.call('XADD', dispatch, '*', 'o', org, 's', at, 'i', id, 't', kind, 'a', account, 'n', whole(n))
  end
  if tell == nil then tell = redis.call('HGET', seq, 'tell') end
  if tell then redis.pcall('PUBLISH', tell, stream) end
  return n
end

-- The place of a transaction in the lists, which an index has as well as its hash;
-- nil where neither says it.
local function placed(index, member, hash, field)
  local place = redis.call('ZSCORE', index, member) or redis.call('HGET', hash, field)
  return place and tonumber(place) and place or nil
end

-- A digest of all that is stored of a payment, in the order in which Redis has it.
local function content_digest(payment, ticket, parts)
  return redis.sha1hex(table.concat({whole(#payment), table.concat(payment, ' '), ticket, table.concat(parts, ' ')}, ' '))
end

-- The fields of a text and their values: what is packed stands in up to four pieces
-- (record.Pieces), of which the last has the rest, JSON in one.
local function pieces(field, text, n)
  if #text <= 64 or n == 4 or not n and string.sub(text, 1, 1) == '{' then return field, text end
  return field, string.sub(text, 1, 64), pieces(field .. '+', string.sub(text, 65), (n or 1) + 1)
end

-- Writes them where there may be others.
local function put_pieces(key, field, text)
  redis.call('HDEL', key, field .. '+', field .. '++', field .. '+++')
  redis.call('HSET', key, pieces(field, text))
end

-- What stands in such fields, or false.
local function joined(values, first)
  if not values[first] then return false end
  return values[first] .. (values[first + 1] or '') .. (values[first + 2] or '') .. (values[first + 3] or '')
end

-- Counts a change that instances have to know of, and notes whose it is.
local function note_change(changes, organization)
  redis.call('ZADD', changes, redis.call('ZINCRBY', changes, '1', 'count'), organization)
end

local function append_audit(seq, stream, head, tail, envelope, n)
  n = n or redis.call('HINCRBY', seq, 'audit', 1)
  redis.call('XADD', stream, '*', 'b', head .. whole(n) .. tail, 'e', envelope)
end

-- Redis' own time. A lease is kept by it: the clocks of two workers may differ.
local function real_time()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- A lease ends at its score, by Redis' time. What lies further ahead than a lease
-- can is of a sandbox of before, which kept them by a clock that was turned.
local longest_lease = 86400000

local function leased(score, real) return score and tonumber(score) > real and tonumber(score) <= real + longest_lease end

local function under_way(leases, real) return redis.call('ZCOUNT', leases, '(' .. whole(real), whole(real + longest_lease)) end

-- What a run of take_work has leased: for each of what it was offered 0 (not
-- taken), 1, or 2 (whose worker died), and until when.
local function leased_by(first) return string.match(first, '^(%d*) (%d+)$') end

-- Where a delivery stands in its queue that fan_out has made and nobody has touched since:
-- the nth of those that were handed over together, less than a millisecond before it was
-- due. Everybody else writes whole milliseconds.
local function untouched(now, n) return whole(now - 1) .. string.sub(string.format('%.8f', math.min(n, 255) / 256), 2) end

local function is_untouched(score) return tonumber(score) % 1 ~= 0 end

-- Tells the workers that something falls due in a queue sooner than they may have
-- read. Who does not hear it reads it later; a Redis that does not let us speak there
-- must not undo what is written.
local function tell_workers(queue) redis.pcall('PUBLISH', 'tollgate:work', queue) end

-- The time at which an endpoint is looked at next is never later than score. Returns
-- whether it is sooner than it was.
local function wake(ready, member, score)
  local at = redis.call('ZSCORE', ready, member)
  if at and tonumber(at) <= tonumber(score) then return false end
  redis.call('ZADD', ready, score, member)
  return true
end

-- A capture or a refund joins the group of what its account is paid on one date, unless its
-- sales day is closed, the account has changed, or the group's sum would
-- leave the numbers that add up. Returns why not, or nil. group is how the
-- group's fields begin: c captured, f fees, n captures. What is refunded is
-- in a hash of its own, by group: the build before takes out all three together.
local function barred(account, revision, sales_day, payable, refunds, group)
  local current = redis.call('HMGET', account, 'v', 'closed')
  if current[1] ~= revision or (current[2] and current[2] >= sales_day) then return {'stale'} end
  local sums = redis.call('HMGET', payable, group .. 'c', group .. 'f', group .. 'n')
  if not integers(unpack(sums)) then return {'damaged', payable} end
  local given = redis.call('HGET', refunds, group)
  if not integers(given) then return {'damaged', refunds} end
  for _, sum in ipairs({sums[1] or '0', sums[2] or '0', given or '0'}) do
    if tonumber(sum) > 1e18 then return {'toomuch'} end
  end
end

local function join(payable, refunds, group, captured, refunded, fees, captures, cutoffs, member, look)
  redis.call('HINCRBY', payable, group .. 'c', captured)
  redis.call('HINCRBY', payable, group .. 'f', fees)
  redis.call('HINCRBY', payable, group .. 'n', captures)
  if refunded ~= '0' then redis.call('HINCRBY', refunds, group, refunded) end
  if wake(cutoffs, member, look) then tell_workers(cutoffs) end
end

-- Objects that are written together, from ARGV[at] on: number of hashes, for
-- each its expected revision (empty: none), number of fields (0: it is only
-- compared) and the fields; then number of strings of immutable versions, and
-- the strings. Their keys begin at KEYS[key]. conflicting reports whether one is
-- not as expected; put_objects writes them and returns where keys and arguments
-- go on.
local function conflicting(key, at)
  local hashes = tonumber(ARGV[at])
  at = at + 1
  for i = 0, hashes - 1 do
    if (redis.call('HGET', KEYS[key + i], 'v') or '') ~= ARGV[at] then return true end
    at = at + 2 + tonumber(ARGV[at + 1])
  end
  for i = 1, tonumber(ARGV[at]) do
    local there = redis.call('GET', KEYS[key + hashes + i - 1])
    if there and there ~= ARGV[at + i] then return true end
  end
  return false
end

local function put_objects(key, at)
  local hashes = tonumber(ARGV[at])
  at = at + 1
  for i = 0, hashes - 1 do
    local fields = tonumber(ARGV[at + 1])
    if fields > 0 then redis.call('HSET', KEYS[key + i], unpack(ARGV, at + 2, at + 1 + fields)) end
    at = at + 2 + fields
  end
  key = key + hashes
  local strings = tonumber(ARGV[at])
  for i = 1, strings do redis.call('SET', KEYS[key + i - 1], ARGV[at + i]) end
  return key + strings, at + strings + 1
end

-- What the files of an organization's exports take up: sizes has the bytes of
-- each and of all, files when each is gone by itself. Bytes count until their
-- file is gone, so that whatever dies in between, too much is counted and never
-- too little. taken takes off at most a thousand files that are gone.
local function free(sizes, files, id)
  local size = redis.call('HGET', sizes, id)
  if size then
    redis.call('HINCRBY', sizes, 'all', '-' .. size)
    redis.call('HDEL', sizes, id)
  end
  redis.call('ZREM', files, id)
end

local function taken(sizes, files, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', files, '-inf', now, 'LIMIT', '0', '1000')) do free(sizes, files, id) end
  return tonumber(redis.call('HGET', sizes, 'all') or '0')
end

-- From ARGV[at] on: number of events, for each its head, tail, id, type, account and
-- envelope; then number of audit entries, for each its head, tail and envelope.
local function append_all(seq, stream, audit, dispatch, hooks, at, tell)
  local events = tonumber(ARGV[at])
  at = at + 1
  for i = 1, events do
    append_event(seq, stream, dispatch, hooks, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], tell)
    at = at + 6
  end
  local entries = tonumber(ARGV[at])
  at = at + 1
  for i = 1, entries do
    append_audit(seq, audit, ARGV[at], ARGV[at + 1], ARGV[at + 2])
    at = at + 3
  end
  return at
end

-- The number of the event of a posting in a list, from 0 on (package postings).
local function posted_at(list, i)
  local a, b, c, d, e = string.byte(redis.call('GETRANGE', list, whole(i * 8), whole(i * 8 + 4)), 1, 5)
  return (((a * 256 + b) * 256 + c) * 256 + d) * 256 + e
end

-- How many postings a list has, and the first of them whose number is at least n.
local function postings_in(list) return math.floor(redis.call('STRLEN', list) / 8) end

local function first_posting(list, n)
  local low, high = 0, postings_in(list)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if posted_at(list, middle) < n then low = middle + 1 else high = middle end
  end
  return low
end
