package wasm

import (
	"slices"

	"github.com/tetratelabs/wazero/api"

	"tollgate/wasm/abi"
)

// A module's state is its memory, how large that is, and its variable globals;
// tables do not change, for no allowed instruction writes one. Before an
// instance is used again, what a call can have changed becomes as tg_buf left
// it in a new one. So a quote depends on its request alone, and nothing of one
// tenant's request is there for the next.

// initial is the state of a new instance, as far as a call can change it.
type initial struct {
	size    uint32   // of the memory
	written content  // what the module may write, unless every request covers it
	request content  // where the longest request lies
	globals []uint64 // in the order of instance.globals
	grows   bool
}

// content is what a part of a memory holds. Zeros at its end are left out.
type content struct {
	from, size uint32
	bytes      []byte
}

// initialOf is a new instance's, of a module whose calls reach so far.
func initialOf(i *instance, r *abi.Reach) initial {
	size := i.memory.Size()
	s := initial{size: size, grows: r.Grows}
	for _, g := range i.globals {
		s.globals = append(s.globals, g.Get())
	}
	whole := abi.Span{From: 0, To: uint64(size)}
	s.request = contentOf(i.memory, abi.Span{From: uint64(i.buffer), To: uint64(i.buffer) + abi.RequestHeader + abi.MaxPayee})
	written := r.Stores
	if r.Anywhere {
		written = whole
	}
	written.From, written.To = min(written.From, whole.To), min(written.To, whole.To)
	header := abi.Span{From: uint64(i.buffer), To: uint64(i.buffer) + abi.RequestHeader}
	if header.With(written) != header {
		s.written = contentOf(i.memory, written)
	}
	return s
}

func contentOf(m api.Memory, s abi.Span) content {
	c := content{from: uint32(s.From), size: uint32(s.To - s.From)}
	all, _ := m.Read(c.from, c.size)
	end := len(all)
	for end > 0 && all[end-1] == 0 {
		end--
	}
	c.bytes = slices.Clone(all[:end])
	return c
}

// restore writes the content from an offset on to memory that begins there.
func (c *content) restore(m []byte, offset uint32) {
	n := 0
	if int(offset) < len(c.bytes) {
		n = copy(m, c.bytes[offset:])
	}
	clear(m[n:])
}

// reset makes a used instance like a new one, except for the bytes that the
// next request of this length overwrites.
func (i *instance) reset(s *initial, length uint32) {
	for n, g := range i.globals {
		g.Set(s.globals[n])
	}
	if s.written.size > 0 {
		if i.written == nil {
			i.written, _ = i.memory.Read(s.written.from, s.written.size)
		}
		s.written.restore(i.written, 0)
	}
	if i.requested > length {
		s.request.restore(i.view[length:i.requested], length)
	}
}

// outgrown reports whether an instance can no longer become like a new one: a
// memory does not shrink.
func (i *instance) outgrown(s *initial) bool { return s.grows && i.memory.Size() != s.size }
