// Package draw draws the numbers of a story from its seed.
package draw

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// Chance draws numbers from a seed and from what they are for, and not from what was
// drawn before: who asks first does not matter.
type Chance uint64

// Of is a number for something.
func (c Chance) Of(what ...any) uint64 {
	sum := uint64(len(what))
	for _, w := range what {
		switch v := w.(type) {
		case string:
			sum = Mixed(sum ^ Hashed(v))
		case int:
			sum = Mixed(sum ^ uint64(v))
		case uint64:
			sum = Mixed(sum ^ v)
		default:
			panic("chance: a text or a number")
		}
	}
	return Mixed(sum ^ Mixed(uint64(c)))
}

// Hashed is FNV-1a, of 64 bits: a story has millions of texts.
func Hashed[T string | []byte](text T) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(text) {
		sum = (sum ^ uint64(text[i])) * 1099511628211
	}
	return sum
}

// Mixed is the finalizer of splitmix64.
func Mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Between is a time that is at least low and less than high.
func Between(n uint64, low, high time.Duration) time.Duration {
	return low + time.Duration(n%uint64(high-low))
}

// Stream is numbers in a row, for one who alone asks for them.
func (c Chance) Stream(name string) *rand.Rand {
	return rand.New(rand.NewPCG(c.Of(name, 1), c.Of(name, 2)))
}

// Numbers are as many random bytes as anybody asks for.
func (c Chance) Numbers(name string) *rand.ChaCha8 {
	var seed [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(seed[8*i:], c.Of(name, "entropy", i))
	}
	return rand.NewChaCha8(seed)
}
