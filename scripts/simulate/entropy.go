package simulate

import (
	"math/rand/v2"
	"sync"

	"tollgate/scripts/simulate/draw"
)

// entropy is the randomness of a process. Each request has its own, so that it does
// not matter which of two that go on at the same moment asks first.
type entropy struct {
	chance draw.Chance
	name   string

	mu   sync.Mutex
	from *rand.ChaCha8
	of   map[uint64]*rand.ChaCha8 // by goroutine, of requests that are being answered
}

func entropyOf(c draw.Chance, name string) *entropy {
	return &entropy{chance: c, name: name, from: c.Numbers(name), of: map[uint64]*rand.ChaCha8{}}
}

func (e *entropy) Read(b []byte) (int, error) {
	me := goroutine()
	e.mu.Lock()
	defer e.mu.Unlock()
	if own := e.of[me]; own != nil {
		return own.Read(b)
	}
	return e.from.Read(b)
}

// own gives what runs in this goroutine its own randomness.
func (e *entropy) own(name string, run func()) {
	me := goroutine()
	e.mu.Lock()
	e.of[me] = e.chance.Numbers(e.name + " " + name)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.of, me)
	}()
	run()
}
