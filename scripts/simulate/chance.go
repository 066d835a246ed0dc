package simulate

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// chance draws numbers from a seed and from what they are for, and not from what was
// drawn before: who asks first does not matter.
type chance uint64

// of is a number for something.
func (c chance) of(what ...any) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for _, w := range what {
		switch v := w.(type) {
		case string:
			_, _ = h.Write([]byte(v))
			_, _ = h.Write([]byte{0})
		case int:
			binary.LittleEndian.PutUint64(b[:], uint64(v))
			_, _ = h.Write(b[:])
		case uint64:
			binary.LittleEndian.PutUint64(b[:], v)
			_, _ = h.Write(b[:])
		default:
			panic("chance: a text or a number")
		}
	}
	return mixed(h.Sum64() ^ mixed(uint64(c)))
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

// entropy is the randomness of a process.
type entropy struct {
	mu   sync.Mutex
	from *rand.ChaCha8
}

func (c chance) entropy(name string) *entropy {
	var seed [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(seed[8*i:], c.of(name, "entropy", i))
	}
	return &entropy{from: rand.NewChaCha8(seed)}
}

func (e *entropy) Read(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.from.Read(b)
}
