package webhooks

import (
	"sync"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// made is what a delivery has been made of: for as long as nobody has touched it since,
// which its place in the queue says, whoever made it need not read it.
type made struct {
	event, place string
	kind         tollgate.EventType
	folded       bool // what never changes of it, and its attempts stand in its own hash
}

func madeOf(m redis.XMessage, folded bool) *made {
	return &made{rediskv.Text(m, "i"), rediskv.Text(m, "s"), tollgate.EventType(rediskv.Text(m, "t")), folded}
}

// mostFresh bounds what a Store knows of deliveries that it has made. Others may have taken
// them: they are forgotten all at once, and read where they are to be sent.
const mostFresh = 16 << 10

// fresh are deliveries that a Store has made and not taken yet, by id.
type fresh struct {
	mu sync.Mutex
	is map[string]*made
}

func (f *fresh) add(id string, m *made) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.is) >= mostFresh {
		clear(f.is)
	}
	f.is[id] = m
}

func (f *fresh) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.is, id)
}

// of is what is known of each of some deliveries; nil: nothing.
func (f *fresh) of(ids []string) []*made {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*made, len(ids))
	for i, id := range ids {
		list[i] = f.is[id]
	}
	return list
}
