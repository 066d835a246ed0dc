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
	if len(refused) > 0 {
		s.short[p] = refused
	}
	r := make(reserved)
	for i, t := range turns {
		t.Room = got[i]
		r[of[i]] += got[i]
	}
	return r
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

// keep gives back what was not needed for the work that came of a partition's look;
// nil when nothing was asked for.
func (s *slots) keep(p *partition, r reserved, work []webhooks.Work) {
	if r == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.short, p)
		return
	}
	for _, w := range work {
		r[ownersOf(w.Organization, w.Endpoint)]--
	}
	for of, n := range r {
		s.giveBack(of, n)
	}
}

func (s *slots) release(w webhooks.Work) { s.giveBack(ownersOf(w.Organization, w.Endpoint), 1) }
