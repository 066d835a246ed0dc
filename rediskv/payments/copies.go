package payments

import (
	"container/heap"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tollgate"
)

const (
	// copyBytes is what a copy takes up beside its texts: the payment, its place in
	// the lists, and what the allocator rounds up.
	copyBytes = 2 << 10
	// copiesEach is more than there is room for: what bounds them is their bytes.
	copiesEach = 1 << 30
)

// copies are payments as this process read or wrote them last, each with its
// ticket: a change of one is computed from the copy, and the commit says whether
// that is how the payment still is. They are a cache and never an authority. Where
// there is no room the organization that has the most gives up what it used
// longest ago, so that one of many payments does not take the others' place.
type copies struct {
	lock  sync.Mutex
	room  int64 // bytes
	taken int64
	of    map[string]*ownCopies
	most  mostCopies
}

// ownCopies are those of one organization, by payment.
type ownCopies struct {
	organization string
	list         *simplelru.LRU[string, *paymentCopy]
	bytes        int64
	place        int // in mostCopies
}

// paymentCopy shares what a payment points to, which nobody changes. The ticket is
// the text that is stored.
type paymentCopy struct {
	payment tollgate.Payment
	ticket  string
}

func (c *paymentCopy) bytes() int64 {
	n := copyBytes + len(c.ticket)
	for name, value := range c.payment.Metadata {
		n += len(name) + len(value)
	}
	for _, text := range []*string{c.payment.Reference, c.payment.Description, c.payment.CancellationReason} {
		if text != nil {
			n += len(*text)
		}
	}
	return int64(n)
}

func newCopies(room int64) *copies { return &copies{room: room, of: make(map[string]*ownCopies)} }

// get is a payment and its ticket's text, "" where there is no copy.
func (c *copies) get(org, id string) (p tollgate.Payment, ticket string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if own := c.of[org]; own != nil {
		if found, ok := own.list.Get(id); ok {
			return found.payment, found.ticket
		}
	}
	return p, ""
}

// keep keeps a payment as it was read or written, unless it is known to have gone
// on since, or nothing can become of it any more.
func (c *copies) keep(org string, p *tollgate.Payment, ticket string) {
	one := &paymentCopy{*p, ticket}
	size := one.bytes()
	c.lock.Lock()
	defer c.lock.Unlock()
	own := c.of[org]
	if own != nil {
		if known, ok := own.list.Peek(p.ID); ok && known.payment.Revision > p.Revision {
			return
		}
	}
	if p.Status.Terminal() && p.AmountRefundable.Minor == 0 || size > c.room {
		c.drop(own, p.ID)
		return
	}
	if own == nil {
		own = &ownCopies{organization: org}
		own.list, _ = simplelru.NewLRU(copiesEach, func(_ string, gone *paymentCopy) { c.add(own, -gone.bytes()) })
		c.of[org] = own
		heap.Push(&c.most, own)
	} else {
		own.list.Remove(p.ID)
	}
	own.list.Add(p.ID, one)
	c.add(own, size)
	for c.taken > c.room {
		largest := c.most[0]
		largest.list.RemoveOldest()
		c.end(largest)
	}
}

// forget drops a payment that is not as it was thought to be.
func (c *copies) forget(org, id string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.drop(c.of[org], id)
}

// drop drops a payment of an organization that may have none. c.lock is held.
func (c *copies) drop(own *ownCopies, id string) {
	if own != nil {
		own.list.Remove(id)
		c.end(own)
	}
}

// add counts bytes of an organization. c.lock is held.
func (c *copies) add(own *ownCopies, bytes int64) {
	own.bytes += bytes
	c.taken += bytes
	heap.Fix(&c.most, own.place)
}

// end forgets an organization that has none left. c.lock is held.
func (c *copies) end(own *ownCopies) {
	if own.list.Len() == 0 {
		heap.Remove(&c.most, own.place)
		delete(c.of, own.organization)
	}
}

// mostCopies is a heap: who has the most bytes is the first.
type mostCopies []*ownCopies

// Len is how many organizations there are.
func (m mostCopies) Len() int { return len(m) }

// Less orders them.
func (m mostCopies) Less(i, j int) bool { return m[i].bytes > m[j].bytes }

// Swap exchanges two.
func (m mostCopies) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	m[i].place, m[j].place = i, j
}

// Push appends an *ownCopies.
func (m *mostCopies) Push(x any) {
	own, _ := x.(*ownCopies)
	own.place = len(*m)
	*m = append(*m, own)
}

// Pop takes the last one off.
func (m *mostCopies) Pop() any {
	last := len(*m) - 1
	own := (*m)[last]
	*m = (*m)[:last]
	return own
}
