package simulate

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"
)

// chance draws numbers from a seed and from what they are for, and not from what was
// drawn before: who asks first does not matter.
type chance uint64

// of is a number for something.
func (c chance) of(what ...any) uint64 {
	sum := uint64(len(what))
	for _, w := range what {
		switch v := w.(type) {
		case string:
			sum = mixed(sum ^ hashed(v))
		case int:
			sum = mixed(sum ^ uint64(v))
		case uint64:
			sum = mixed(sum ^ v)
		default:
			panic("chance: a text or a number")
		}
	}
	return mixed(sum ^ mixed(uint64(c)))
}

// hashed is FNV-1a, of 64 bits: a story has millions of texts.
func hashed[T string | []byte](text T) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(text) {
		sum = (sum ^ uint64(text[i])) * 1099511628211
	}
	return sum
}

// mixed is the finalizer of splitmix64.
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// between is a time that is at least low and less than high.
func between(n uint64, low, high time.Duration) time.Duration {
	return low + time.Duration(n%uint64(high-low))
}

// stream is numbers in a row, for one who alone asks for them.
func (c chance) stream(name string) *rand.Rand {
	return rand.New(rand.NewPCG(c.of(name, 1), c.of(name, 2)))
}

// entropy is the randomness of a process. Each request has its own, so that it does
// not matter which of two that go on at the same moment asks first.
type entropy struct {
	chance chance
	name   string

	mu   sync.Mutex
	from *rand.ChaCha8
	of   map[uint64]*rand.ChaCha8 // by goroutine, of requests that are being answered
}

func (c chance) entropy(name string) *entropy {
	return &entropy{chance: c, name: name, from: c.numbers(name), of: map[uint64]*rand.ChaCha8{}}
}

func (c chance) numbers(name string) *rand.ChaCha8 {
	var seed [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(seed[8*i:], c.of(name, "entropy", i))
	}
	return rand.NewChaCha8(seed)
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
	e.of[me] = e.chance.numbers(e.name + " " + name)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.of, me)
	}()
	run()
}
