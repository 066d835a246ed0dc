package delivery

import (
	"net/url"
	"strings"
	"sync"

	"tollgate"
	"tollgate/rediskv/webhooks"
)

// slots are how many attempts may run at the same time, and who has them. An
// organization gets another one only while it has fewer than are free, and so
// does a host, whoever sends to it: however many endpoints are slow, what another
// organization sends elsewhere finds room.
type slots struct {
	all int

	mu    sync.Mutex
	inUse int
	by    map[string]int                 // by organization and by host
	short map[*partition]map[owners]bool // who was refused at a partition's last look
}

func newSlots(all int) *slots {
	return &slots{all: all, by: make(map[string]int), short: make(map[*partition]map[owners]bool)}
}

// owners are an organization and a host: a slot counts against both.
type owners [2]string

// ownersOf an endpoint's slots. Ports make no other host; other spellings of an
// address or a name than those in upper case are refused (package egress).
func ownersOf(org string, e *tollgate.StoredWebhook) owners {
	host := e.URL
	if u, err := url.Parse(e.URL); err == nil {
		host = u.Hostname()
	}
	return owners{org, "host " + strings.ToLower(host)}
}

// take reserves up to most slots for endpoints, one for each in turn, so that
// one endpoint's backlog leaves room. Who is refused is noted for the partition: it is
// woken when that would be granted.
func (s *slots) take(p *partition, turns []*webhooks.Turn, most int) reserved {
	of, got := make([]owners, len(turns)), make([]int, len(turns))
	for i, t := range turns {
		of[i] = ownersOf(t.Organization, t.Endpoint)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.short, p)
	refused := s.divide(turns, of, got, most)
	if len(refused) > 0 {
		s.short[p] = refused
	}
	r := make(reserved)
	r.add(turns, of, got)
	return r
}

// takeAtOnce reserves up to most slots for what comes anew, and adds them to r. While somebody waits
// for a slot it gets none, and lines up.
func (s *slots) takeAtOnce(turns []*webhooks.Turn, r reserved, most int) {
	of, got := make([]owners, len(turns)), make([]int, len(turns))
	for i, t := range turns {
		of[i] = ownersOf(t.Organization, t.Endpoint)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.short) == 0 {
		s.divide(turns, of, got, most)
	}
	r.add(turns, of, got)
}

// divide gives turns up to most slots, and returns who was refused; s.mu is held.
func (s *slots) divide(turns []*webhooks.Turn, of []owners, got []int, most int) map[owners]bool {
	refused := make(map[owners]bool)
	for more := true; more; {
		more = false
		for i, t := range turns {
			switch {
			case most == 0 || got[i] == t.Room || refused[of[i]]:
			case !s.room(of[i]):
				refused[of[i]] = true
			default:
				s.count(of[i], 1)
				got[i]++
				most--
				more = true
			}
		}
	}
	return refused
}

// giveBack frees slots, and wakes a partition for each that can have one now.
func (s *slots) giveBack(of owners, n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(of, -n)
	for p, refused := range s.short {
		for of := range refused {
			if s.room(of) {
				delete(s.short, p)
				p.wake()
				n--
				break
			}
		}
		if n == 0 {
			return
		}
	}
}

// room reports whether another slot would be granted; s.mu is held.
func (s *slots) room(of owners) bool {
	free := s.all - s.inUse
	return s.by[of[0]] < free && s.by[of[1]] < free
}

// count changes what is in use; s.mu is held.
func (s *slots) count(of owners, by int) {
	s.inUse += by
	for _, name := range of {
		if s.by[name] += by; s.by[name] == 0 {
			delete(s.by, name)
		}
	}
}

// reserved is what one look at a partition has taken.
type reserved map[owners]int

// add notes what turns have got.
func (r reserved) add(turns []*webhooks.Turn, of []owners, got []int) {
	for i, t := range turns {
		t.Room = got[i]
		r[of[i]] += got[i]
	}
}

// keep gives back what was not needed for the work that came of a partition's look;
// nil when nothing was asked for.
func (s *slots) keep(p *partition, r reserved, work []webhooks.Work) {
	if r == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.short, p)
		return
	}
	s.giveUp(r, work)
}

// giveUp is keep for what no partition's look has taken.
func (s *slots) giveUp(r reserved, work []webhooks.Work) {
	for _, w := range work {
		r[ownersOf(w.Organization, w.Endpoint)]--
	}
	for of, n := range r {
		s.giveBack(of, n)
	}
}

func (s *slots) release(w webhooks.Work) { s.giveBack(ownersOf(w.Organization, w.Endpoint), 1) }
