package simulate

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate/scripts/simulate/story"
)

// tooth is a bug that was there once, or nearly: a script with one line changed, or
// what a process would do that has a bug no script can have. It must be found.
type tooth struct {
	name     string
	old, new string // of a script
	bend     bend
	shape    func(*story.Plan) // what its stories need
	says     string            // what it is found by; empty: by anything
}

// deaf is a process that does not compare what Redis has with what it has acknowledged:
// it is told that everything is there.
func deaf(_ *wire, words []string, answer []byte) []byte {
	if len(words) == 3 && strings.EqualFold(words[0], "HGET") && strings.HasSuffix(words[1], ":seq") && words[2] == "event" {
		return []byte("$9\r\n999999999\r\n")
	}
	return answer
}

// credulous is a deaf one that does not look whether the event of a cursor is there: it
// is told of the one that was.
func credulous(w *wire, words []string, answer []byte) []byte {
	const end = "$0\r\n\r\n" // what the answer of a script ends with
	bare, nothing := bytes.CutSuffix(answer, []byte("_\r\n"+end))
	const log = 5 // read_log.lua has it behind the grant and the rate
	if w.lost == nil || !nothing || len(words) <= log || !strings.HasPrefix(strings.ToUpper(words[0]), "EVAL") || !strings.HasSuffix(words[log], ":events") {
		return deaf(w, words, answer)
	}
	was, there := strings.CutPrefix(w.lost.do("XRANGE", words[log], words[len(words)-1], words[len(words)-1]), "*1\r\n")
	if !there {
		return answer
	}
	return append(append(bare, was...), end...)
}

// logPage is where a log is read.
const logPage = "  for _, entry in ipairs(redis.call(command, stream, first, last, 'COUNT', whole(wanted - looked))) do"

// teeth are the bugs that the simulation must find.
var teeth = []tooth{
	{
		// An answer is lost, and the client library sends the script again.
		name: "the capture made twice",
		old:  "  return done() and revised(sequences, {'done'}) or {'conflict'}",
		new:  "  return {'conflict'}",
	},
	{
		// The first answer is lost, and the same call gets that of a repeat: nobody has
		// ever seen the secret.
		name: "the lost secret",
		old:  "  if mark and earlier(mark) then return {'done'} end",
		new:  "",
		bend: bend{alter: func(source string) string {
			if !strings.Contains(source, "local mark = KEYS") && !strings.Contains(source, ", mark = KEYS") {
				return source
			}
			return swapped(source, "    if op == operation then return {'done'} end\n", "")
		}},
	},
	{
		name: "a budget not given back on final capture",
		old:  "  if used then redis.call('DECRBY', counter, back) end",
		new:  "  if used and event_type ~= 'payment.captured' then redis.call('DECRBY', counter, back) end",
	},
	{
		name: "an event's dispatch entry left out",
		old:  "  if redis.call('EXISTS', hooks) == 1 and not string.find(kind, '^webhook_endpoint%.')",
		new:  "  if kind ~= 'payment.refunded' and redis.call('EXISTS', hooks) == 1 and not string.find(kind, '^webhook_endpoint%.')",
	},
	{
		// Go asks for the number and hands it to the script.
		name: "a sequence counted outside the script",
		old:  "  n = n or redis.call('HINCRBY', seq, 'event', 1)\n",
		new: "  n = tonumber(redis.call('GET', seq .. ':asked') or n and n - 1 or redis.call('HGET', seq, 'event') or '0') + 1\n" +
			"  redis.call('HSET', seq, 'event', whole(n))\n  redis.call('DEL', seq .. ':asked')\n",
		bend: bend{sent: askSequence},
	},
	{
		name: "an idempotency record left out",
		old:  "if fingerprint ~= '' then redis.call('SET', record, record_text, 'PX', record_lifetime) end\nredis.call('SET', ticket, ticket_text)",
		new:  "redis.call('SET', ticket, ticket_text)",
	},
	{
		// It is sent when the change is answered. A process that dies in between never
		// sends it.
		name: "an idempotency record written by a second command",
		old:  "redis.call('SET', record, record_text, 'PX', record_lifetime)\nlocal untouched = {}",
		new:  "local untouched = {}",
		bend: bend{told: tellRecord},
	},
	{
		name: "a delivery marked succeeded before its record",
		old:  "'st', 'sending', 'n', '1', 'run', '1', 'lat', now_ms",
		new:  "'st', 'succeeded', 'n', '1', 'run', '1', 'lat', now_ms",
		bend: bend{alter: func(source string) string {
			queue := "      redis.call('ZADD', queue, unpack(queued))\n"
			return swapped(source, queue, queue+"      for i = 2, #ended, 2 do redis.call('ZREM', queue, ended[i]) end\n")
		}},
	},
	{
		// Two workers make it, or one whose answer was lost.
		name: "a payout made twice",
		old:  "if redis.call('EXISTS', payout) == 1 then return revised(sequences, {'done'}) end\n",
		new:  "",
		bend: bend{alter: func(source string) string {
			return swapped(source, "  if redis.call('HGET', payable, ARGV[i]) ~= ARGV[i + 1] then return {'conflict'} end\n", "")
		}},
	},
	{
		// The bank has paid it, and Redis has forgotten that it was made.
		name: "a payout paid again after a restore", bend: bend{answered: deaf},
		shape: func(p *story.Plan) {
			p.Untailed = true // who follows the events would notice
			p.Faults = append(p.Faults, story.Fault{At: 2*time.Minute + 50*time.Second, Kind: "crash", Who: "redis", Back: 500})
		},
		says: "paid twice",
	},
	{
		// Ids that were read are given to other events.
		name: "a cursor that skips after a lost tail", bend: bend{answered: credulous},
		shape: func(p *story.Plan) { // the clock of the other Redis is behind
			p.Ahead = 50 * time.Second
			p.Faults = append(p.Faults, story.Fault{At: 4 * time.Minute, Kind: "crash", Who: "redis", Back: 100})
		},
		says: "who follows the events did not get",
	},
	{
		// Whoever goes on reads from behind what was written in the same millisecond.
		name: "a cursor that skips",
		old:  logPage,
		new: "  local from, open, ms, part = first, string.match(first, '^(%(?)(%d+)%-(%d+)$')\n" +
			"  if ms and (open ~= '' or part ~= '0') then from = open .. ms .. '-' .. whole(tonumber(part) + 1) end\n" +
			"  for _, entry in ipairs(redis.call(command, stream, from, last, 'COUNT', whole(wanted - looked))) do",
	},
	{
		// Two machines are further apart than a lease, and by less than what has a
		// worker wait for its clock (health.ClockLimit).
		name: "a lease by the worker's clock",
		old:  "local now, real = tonumber(now_ms), real_time()\nlocal lease_end",
		new:  "local now, real = tonumber(now_ms), tonumber(now_ms)\nlocal lease_end",
		shape: func(p *story.Plan) {
			p.Faults = append(p.Faults, story.Fault{At: time.Minute, Kind: "skew", Who: "work-0", By: 55 * time.Second, For: 5 * time.Minute})
		},
	},
	{
		name: "a counter that is checked and not counted",
		old:  "    redis.call('INCRBY', KEYS[key + i], ARGV[at + 3 * i - 2])\n",
		new:  "    if KEYS[key + i] ~= record then redis.call('GET', KEYS[key + i]) end\n",
	},
	{
		name: "a revision that is not compared",
		old:  "if current[1] ~= payment_revision or (event_before ~= '' and not refers(event_before)) then",
		new:  "if false then",
	},
	{
		name: "a revocation that forgets the one before",
		old:  "for id, expires in string.gmatch(live and current[3] or '', '([%w_]+):(%d+)') do",
		new:  "for id, expires in string.gmatch('', '([%w_]+):(%d+)') do",
		says: "has revoked its token",
	},
	{
		// It is answered as if there were nothing to revoke.
		name: "a revocation that is only acknowledged",
		old:  "    redis.call('HSET', grant, 'revoked', text, 'revoked=', text)\n",
		new:  "",
		says: "has revoked its token",
	},
	{
		// Whoever seals, 2,048 at once, reads from the last one that is sealed on, not from
		// behind it.
		name: "a leaf that is sealed twice",
		old:  logPage,
		new: "  local before = wanted == 2048 and redis.call('XREVRANGE', stream, first, '-', 'COUNT', '1')[1]\n" +
			"  local from = before and before[1] or first\n" +
			strings.Replace(logPage, "stream, first,", "stream, from,", 1),
		says: "the audit record: ",
	},
	{
		name: "leaves that are sealed in another order",
		old:  logPage,
		new: "  local page = redis.call(command, stream, first, last, 'COUNT', whole(wanted - looked))\n" +
			"  if wanted == 2048 and #page > 2 then page[1], page[2] = page[2], page[1] end\n  for _, entry in ipairs(page) do",
		says: "the audit record: ",
	},
	{
		// Two workers seal at once, and the slower one does not notice.
		name: "a tree that two workers advance",
		old:  "  if is ~= before then return {'conflict'} end\n  redis.call('SET', tree, after)",
		new:  "  redis.call('SET', tree, after)",
		shape: func(p *story.Plan) { // one of them is frozen in between
			p.Faults = append(p.Faults, story.Fault{At: 2 * time.Minute, Kind: "slow", Who: "work-0", For: 2 * time.Minute, By: 4 * time.Second},
				story.Fault{At: 2 * time.Minute, Kind: "slow", Who: "work-1", For: 2 * time.Minute, By: 4 * time.Second})
		},
		says: "the audit record: ",
	},
	{
		name: "an acknowledged event that is not fanned out to the second endpoint",
		old:  "  if not gone then\n    local there = list(",
		new:  "  if not gone and number == 1 then\n    local there = list(",
	},
}

// swapped is a script with another line, which must be there: else the bug is only half
// put back, and nobody can find it.
func swapped(source, old, line string) string {
	if !strings.Contains(source, old) {
		panic("teeth: no script has\n" + old)
	}
	return strings.Replace(source, old, line, 1)
}

// bent is the bend that has a tooth's bug. altered counts in how many scripts it is.
func (b tooth) bent(altered map[string]bool) bend {
	all := b.bend
	all.alter = func(source string) string {
		if b.old == "" || !strings.Contains(source, b.old) {
			return source
		}
		altered[source] = true
		source = strings.Replace(source, b.old, b.new, 1)
		if b.bend.alter != nil {
			source = b.bend.alter(source)
		}
		return source
	}
	return all
}

// askSequence has the number of the last event asked for when a script is sent.
func askSequence(w *wire, commands [][]string) (before [][]string) {
	for _, words := range commands {
		if len(words) < 4 || !strings.EqualFold(words[0], "EVALSHA") {
			continue
		}
		for _, key := range words[3:] {
			if strings.HasSuffix(key, ":seq") {
				answer := strings.Split(w.redis.do("HGET", key, "event"), "\r\n")
				if len(answer) > 1 && answer[1] != "" {
					before = append(before, []string{"SET", key + ":asked", answer[1], "PX", "60000"})
				}
				break
			}
		}
	}
	return before
}

// tellRecord writes the record of a create a moment after its answer has come.
func tellRecord(w *wire, c *conn, commands [][]string, answers []byte) {
	if !bytes.Contains(answers, []byte("created")) {
		return
	}
	for _, words := range commands {
		if len(words) < 5 || !strings.HasPrefix(strings.ToUpper(words[0]), "EVAL") || w.redis.altered[words[1]] == "" && w.redis.altered[digest(words[1])] == "" {
			continue
		}
		keys, _ := strconv.Atoi(words[2])
		record, args := words[4], words[3+keys:]
		w.push(time.Now().Add(w.trouble.travel(w, c.process, 1)), 1, func() {
			if !c.broken() {
				w.redis.do("SET", record, args[4], "PX", args[3])
			}
		})
	}
}

// TestTeeth puts known bugs back, one at a time. Each must be found within 500 seeds.
// TOLLGATE_TEST_TEETH is all, or a part of a name; without it those are tried that the
// first seeds find.
func TestTeeth(t *testing.T) {
	wanted, most := os.Getenv("TOLLGATE_TEST_TEETH"), uint64(500)
	if wanted == "" {
		wanted, most = "a budget not given back", 3
	}
	for _, b := range teeth {
		if wanted != "all" && !strings.Contains(b.name, wanted) {
			continue
		}
		t.Run(b.name, func(t *testing.T) { b.find(t, most) })
	}
}

func (b tooth) find(t *testing.T, most uint64) {
	t.Helper()
	altered, begun := map[string]bool{}, time.Now()
	for seed := uint64(1); seed <= most; seed++ {
		plan := planOf(seed)
		if b.shape != nil {
			b.shape(&plan)
		}
		r := tell(t, plan, b.bent(altered), false)
		if b.old != "" && len(altered) == 0 {
			t.Fatalf("no script has\n%s", b.old)
		}
		found := slices.DeleteFunc(r.Faults, func(fault string) bool { return !strings.Contains(fault, b.says) })
		if len(found) > 0 {
			t.Logf("seed %d, after %.0f s: %s", seed, time.Since(begun).Seconds(), strings.Join(found[:min(3, len(found))], "\n\t"))
			return
		}
	}
	t.Errorf("not found in %d seeds", most)
}
