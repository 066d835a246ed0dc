package payments

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"tollgate"
)

// copied is a payment that can still be captured.
func copied(id string, revision int64) *tollgate.Payment {
	return &tollgate.Payment{ID: id, Status: tollgate.Authorized, Revision: revision}
}

// Of two revisions the higher one stays, whichever comes last: an answer may be
// overtaken. One that turned out to be wrong is gone, and what nothing can become
// of any more is not kept.
func TestCopiesAreTheLast(t *testing.T) {
	c := newCopies(1 << 20)
	holds := func(what string, revision int64) {
		t.Helper()
		if p, text := c.get("org_a", "pay_1"); p.Revision != revision || (text != "") != (revision > 0) {
			t.Errorf("%s: revision %d, %q", what, p.Revision, text)
		}
	}
	holds("none", 0)
	c.keep("org_a", copied("pay_1", 2), "two")
	c.keep("org_a", copied("pay_1", 1), "one")
	holds("overtaken", 2)
	if p, _ := c.get("org_b", "pay_1"); p.Revision != 0 {
		t.Error("another organization has it, too")
	}
	c.forget("org_a", "pay_1")
	holds("forgotten", 0)
	c.keep("org_a", copied("pay_1", 1), "one")
	holds("earlier, after a loss", 1)
	ended := copied("pay_1", 3)
	ended.Status = tollgate.Canceled
	c.keep("org_a", ended, "three")
	holds("canceled", 0)
	if c.taken != 0 || len(c.of) != 0 || len(c.most) != 0 {
		t.Errorf("%d bytes of %d organizations are left", c.taken, len(c.of))
	}
	if off := newCopies(-1); true {
		off.keep("org_a", copied("pay_1", 1), "one")
		if p, _ := off.get("org_a", "pay_1"); p.Revision != 0 {
			t.Error("it is kept where there is no room")
		}
	}
}

// Whoever makes a hundred thousand payments gets the room that is left, and takes
// nobody's place who has less; the process has no more memory than was said.
func TestCopiesAreBounded(t *testing.T) {
	const room = 16 << 20
	c := newCopies(room)
	ticket := func(id string) string { return id + strings.Repeat("x", 1500) }
	const few = 200
	keepFew := func(from, to int) {
		for n := from; n < to; n++ {
			id := fmt.Sprintf("pay_few_%d", n)
			c.keep("org_few", copied(id, 1), ticket(id))
		}
	}
	keepFew(0, few/2)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const many = 100_000
	for n := range many {
		id := fmt.Sprintf("pay_many_%d", n)
		c.keep("org_many", copied(id, 1), ticket(id))
		if c.taken > room {
			t.Fatalf("%d bytes after %d payments", c.taken, n)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > room {
		t.Errorf("the process has %d bytes more, for a room of %d", grown, room)
	}
	keepFew(few/2, few) // for which there is no room any more
	for n := range few {
		if _, text := c.get("org_few", fmt.Sprintf("pay_few_%d", n)); text == "" {
			t.Fatalf("payment %d of %d had to go for another organization's", n, few)
		}
	}
	left := c.of["org_many"].list.Len()
	if _, text := c.get("org_many", fmt.Sprintf("pay_many_%d", many-1)); text == "" || left < 2000 {
		t.Errorf("%d are left of many, without the newest", left)
	}
	t.Logf("%d payments in %d bytes", left+few, c.taken)
}

// Whatever comes and goes, what is counted is what is there, and the first of the
// heap has the most.
func TestCopiesAreCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 4))
	c := newCopies(300 << 10)
	for range 20_000 {
		org, id := fmt.Sprintf("org_%d", random.IntN(7)), fmt.Sprintf("pay_%d", random.IntN(60))
		switch p := copied(id, random.Int64N(5)); random.IntN(6) {
		case 0:
			c.forget(org, id)
		case 1:
			p.Status = tollgate.Declined
			c.keep(org, p, "declined")
		default:
			c.keep(org, p, strings.Repeat("x", 1+random.IntN(9000)))
		}
		var all, most int64
		for name, own := range c.of {
			var sum int64
			for _, one := range own.list.Values() {
				sum += one.bytes()
			}
			if sum != own.bytes || own.list.Len() == 0 || c.most[own.place] != own {
				t.Fatalf("%s has %d bytes, counted are %d", name, sum, own.bytes)
			}
			all, most = all+sum, max(most, sum)
		}
		if all != c.taken || all > c.room || (len(c.most) > 0 && c.most[0].bytes != most) || len(c.most) != len(c.of) {
			t.Fatalf("%d bytes are there, counted are %d; the most is %d", all, c.taken, most)
		}
	}
}
