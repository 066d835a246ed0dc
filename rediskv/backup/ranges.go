package backup

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// ranges answers what asks the embedded server for a part of a log or an index, which it
// would look for from the beginning each time: a check that asks for all parts, one
// after the other, would take as long as the square of what is there. Nobody writes to it
// any more. In a transaction it answers nothing.
type ranges struct {
	mini     *miniredis.Miniredis
	password string

	mu      sync.Mutex
	peers   map[*server.Peer]*peerState
	logs    map[string]sortedLog
	indexes map[string][]place
}

type peerState struct {
	known bool // it has said the password
	multi bool // it has begun a transaction
}

type sortedLog struct {
	entries []miniredis.StreamEntry
	ids     [][2]uint64
}

type place struct {
	score  float64
	member string
}

// hook has ranges answer from now on.
func (r *ranges) hook() {
	r.peers, r.logs, r.indexes = map[*server.Peer]*peerState{}, map[string]sortedLog{}, map[string][]place{}
	r.mini.Server().SetPreHook(r.answer)
}

func (r *ranges) answer(c *server.Peer, command string, args ...string) (done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peers[c]
	if p == nil {
		p = new(peerState)
		r.peers[c] = p
		c.OnDisconnect(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.peers, c)
		})
	}
	switch command {
	case "HELLO", "AUTH":
		p.known = p.known || slices.Contains(args, r.password)
	case "MULTI":
		p.multi = true
	case "EXEC", "DISCARD":
		p.multi = false
	}
	if !p.known || p.multi || len(args) < 3 {
		return false
	}
	switch command {
	case "XRANGE":
		return r.log(c, args[0], args[1], args[2], args[3:], false)
	case "XREVRANGE":
		return r.log(c, args[0], args[2], args[1], args[3:], true)
	case "ZRANGEBYSCORE":
		return r.index(c, args[0], args[1], args[2], args[3:], false)
	case "ZREVRANGEBYSCORE":
		return r.index(c, args[0], args[2], args[1], args[3:], true)
	}
	return false
}

// log answers a range of a log, unless it is one that Redis has to judge.
func (r *ranges) log(c *server.Peer, key, first, last string, options []string, reverse bool) bool {
	l, ok := r.logs[key]
	if !ok {
		entries, err := r.mini.Stream(key)
		if err != nil {
			return false
		}
		l.entries = entries
		for _, e := range entries {
			id, ok := logID(e.ID, 0)
			if !ok {
				return false
			}
			l.ids = append(l.ids, id)
		}
		r.logs[key] = l
	}
	count := len(l.entries)
	if len(options) > 0 {
		n, err := strconv.Atoi(options[len(options)-1])
		if err != nil || len(options) != 2 || n < 1 {
			return false
		}
		count = n
	}
	from, fine := logID(first, 0)
	to, also := logID(last, math.MaxUint64)
	if !fine || !also {
		return false
	}
	low, there := slices.BinarySearchFunc(l.ids, from, compareIDs)
	if there && strings.HasPrefix(first, "(") {
		low++
	}
	high, there := slices.BinarySearchFunc(l.ids, to, compareIDs)
	if there && !strings.HasPrefix(last, "(") {
		high++
	}
	some := slices.Clone(l.entries[low:max(low, high)])
	if reverse {
		slices.Reverse(some)
	}
	some = some[:min(count, len(some))]
	c.WriteLen(len(some))
	for _, e := range some {
		c.WriteLen(2)
		c.WriteBulk(e.ID)
		c.WriteLen(len(e.Values))
		for _, v := range e.Values {
			c.WriteBulk(v)
		}
	}
	return true
}

// logID reads an id of an entry, or a bound of a range; rest is the second number of one
// that has none.
func logID(text string, rest uint64) (id [2]uint64, ok bool) {
	switch text = strings.TrimPrefix(text, "("); text {
	case "-":
		return id, true
	case "+":
		return [2]uint64{math.MaxUint64, math.MaxUint64}, true
	}
	milli, number, both := strings.Cut(text, "-")
	var err, failed error
	id[0], err = strconv.ParseUint(milli, 10, 64)
	if id[1] = rest; both {
		id[1], failed = strconv.ParseUint(number, 10, 64)
	}
	return id, err == nil && failed == nil
}

func compareIDs(a, b [2]uint64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }

// index answers a range of an index by places, likewise.
func (r *ranges) index(c *server.Peer, key, lowest, highest string, options []string, reverse bool) bool {
	all, ok := r.indexes[key]
	if !ok {
		members, err := r.mini.SortedSet(key)
		if err != nil {
			return false
		}
		for _, member := range slices.Sorted(maps.Keys(members)) {
			all = append(all, place{members[member], member})
		}
		slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.score, b.score) })
		r.indexes[key] = all
	}
	scores, count := false, len(all)
	for len(options) > 0 {
		switch {
		case strings.EqualFold(options[0], "WITHSCORES"):
			scores, options = true, options[1:]
		case strings.EqualFold(options[0], "LIMIT") && len(options) > 2 && options[1] == "0":
			n, err := strconv.Atoi(options[2])
			if err != nil || n < 0 {
				return false
			}
			count, options = n, options[3:]
		default:
			return false
		}
	}
	low, err := strconv.ParseFloat(strings.TrimPrefix(lowest, "("), 64)
	high, failed := strconv.ParseFloat(strings.TrimPrefix(highest, "("), 64)
	if err != nil || failed != nil {
		return false
	}
	from := behind(all, low, strings.HasPrefix(lowest, "("))
	some := slices.Clone(all[from:max(from, behind(all, high, !strings.HasPrefix(highest, "(")))])
	if reverse {
		slices.Reverse(some)
	}
	some = some[:min(count, len(some))]
	if scores {
		c.WriteLen(2 * len(some))
	} else {
		c.WriteLen(len(some))
	}
	for _, one := range some {
		c.WriteBulk(one.member)
		if scores {
			c.WriteFloat(one.score)
		}
	}
	return true
}

// behind is how many are below a score, or with it.
func behind(all []place, score float64, with bool) int {
	n, _ := slices.BinarySearchFunc(all, score, func(one place, score float64) int {
		if c := cmp.Compare(one.score, score); c != 0 || !with {
			return c
		}
		return -1
	})
	return n
}
