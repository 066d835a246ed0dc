package delivery

import (
	"fmt"
	"testing"

	"tollgate"
	"tollgate/rediskv/webhooks"
)

func endpointAt(url string) *tollgate.StoredWebhook {
	return &tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{URL: url}}
}

// turnsOf are endpoints, given as organization and URL, that can get so many each.
func turnsOf(room int, orgsAndURLs ...string) (turns []*webhooks.Turn) {
	for i := 0; i < len(orgsAndURLs); i += 2 {
		turns = append(turns, &webhooks.Turn{Organization: orgsAndURLs[i], Endpoint: endpointAt(orgsAndURLs[i+1]), Room: room})
	}
	return turns
}

func rooms(turns []*webhooks.Turn) (all []int) {
	for _, t := range turns {
		all = append(all, t.Room)
	}
	return all
}

func newTestPartition() *partition { return &partition{due: make(chan struct{}, 1)} }

func woken(l *partition) bool {
	select {
	case <-l.due:
		return true
	default:
		return false
	}
}

// One organization and one host have half of the slots, the next half of what
// is left, and there is one turn after the other.
func TestSlotShares(t *testing.T) {
	for name, c := range map[string]struct {
		room, most int
		turns      []string
		want       string
	}{
		"one endpoint":               {100, 100, []string{"a", "https://x.example"}, "[8]"},
		"no more than asked for":     {100, 3, []string{"a", "https://x.example"}, "[3]"},
		"no more than it can get":    {2, 100, []string{"a", "https://x.example"}, "[2]"},
		"one organization":           {100, 100, []string{"a", "https://x.example", "a", "https://y.example"}, "[4 4]"},
		"one host":                   {100, 100, []string{"a", "https://x.example", "b", "https://x.example", "c", "https://x.example"}, "[3 3 2]"},
		"one host by its spellings":  {100, 100, []string{"a", "https://x.example/1", "b", "https://X.Example:8443/2"}, "[4 4]"},
		"one address":                {100, 100, []string{"a", "https://[2606:4700::1]:8443", "b", "https://[2606:4700::1]/"}, "[4 4]"},
		"two hosts":                  {100, 100, []string{"a", "https://x.example", "b", "https://y.example"}, "[6 5]"},
		"a URL that cannot be read":  {100, 100, []string{"a", ":", "b", ":"}, "[4 4]"},
		"a small one beside a large": {100, 5, []string{"a", "https://x.example", "b", "https://y.example"}, "[3 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			s, l, turns := newSlots(16), newTestPartition(), turnsOf(c.room, c.turns...)
			r := s.take(l, turns, c.most)
			if got := fmt.Sprint(rooms(turns)); got != c.want {
				t.Errorf("%s; want %s", got, c.want)
			}
			s.keep(l, r, nil)
			if s.inUse != 0 || len(s.by) != 0 {
				t.Errorf("%d in use, by %v, when all is given back", s.inUse, s.by)
			}
		})
	}
}

// What is left of a worker is never nobody's: whoever has nothing gets one of
// those that are free.
func TestEverybodyFindsASlot(t *testing.T) {
	s, l := newSlots(64), newTestPartition()
	for n := range 6 {
		turns := turnsOf(64, fmt.Sprint("org", n), fmt.Sprintf("https://h%d.example", n))
		s.take(l, turns, 64)
		if turns[0].Room == 0 {
			t.Fatalf("nothing is left for number %d: %v", n, s.by)
		}
	}
	if s.inUse > s.all {
		t.Errorf("%d of %d are in use", s.inUse, s.all)
	}
}

// What becomes work stays taken, until it is released; the rest comes back.
func TestUnneededSlotsComeBack(t *testing.T) {
	s, l, turns := newSlots(16), newTestPartition(), turnsOf(3, "a", "https://x.example", "b", "https://y.example")
	work := []webhooks.Work{{Organization: "a", Endpoint: turns[0].Endpoint}}
	s.keep(l, s.take(l, turns, 64), work)
	if got := fmt.Sprint(s.inUse, s.by); got != "1 map[a:1 host x.example:1]" {
		t.Error(got)
	}
	s.release(work[0])
	if s.inUse != 0 || len(s.by) != 0 {
		t.Error(s.inUse, s.by)
	}
}

// A slot that is given back wakes one partition that was refused what it can have
// now, and nobody else.
func TestGivenBackSlotsWake(t *testing.T) {
	s, partitions := newSlots(4), []*partition{newTestPartition(), newTestPartition(), newTestPartition()}
	wokenLanes := func() (n int) {
		for _, l := range partitions {
			if woken(l) {
				n++
			}
		}
		return n
	}
	s.take(newTestPartition(), turnsOf(2, "a", "https://x.example"), 64)
	for i, l := range partitions {
		turns := turnsOf(1, fmt.Sprint("b", i), "https://x.example")
		s.keep(l, s.take(l, turns, 64), nil)
		if turns[0].Room != 0 {
			t.Fatal("the host has more than its share")
		}
	}
	s.keep(partitions[2], nil, nil) // it looked again, and there was nothing
	elsewhere := s.take(newTestPartition(), turnsOf(1, "c", "https://z.example"), 64)
	s.keep(newTestPartition(), elsewhere, nil)
	if n := wokenLanes(); n != 0 {
		t.Errorf("%d are woken while the host has its share", n)
	}
	x := ownersOf("a", endpointAt("https://x.example"))
	for range 2 {
		s.giveBack(x, 1)
		if n := wokenLanes(); n != 1 {
			t.Errorf("%d are woken by a slot", n)
		}
	}
	if len(s.short) != 0 || woken(partitions[2]) {
		t.Error("one is woken that needs nothing")
	}
}

// What comes anew gets slots at once, by the same shares, unless somebody waits for one.
func TestSlotsAtOnce(t *testing.T) {
	s, r, turns := newSlots(16), make(reserved), turnsOf(100, "a", "https://x.example", "b", "https://y.example")
	s.takeAtOnce(turns, r, 64)
	if got := fmt.Sprint(rooms(turns)); got != "[6 5]" {
		t.Error(got)
	}
	s.take(newTestPartition(), turnsOf(100, "a", "https://x.example"), 64)
	if len(s.short) != 1 {
		t.Fatal("nobody waits")
	}
	late := turnsOf(1, "c", "https://z.example")
	s.takeAtOnce(late, r, 64)
	if late[0].Room != 0 {
		t.Error("it is served before who waits")
	}
	s.giveUp(r, nil)
	if s.inUse != 0 || len(s.by) != 0 {
		t.Errorf("%d in use, by %v, when all is given back", s.inUse, s.by)
	}
}
