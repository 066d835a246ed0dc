package wasm

import (
	"slices"

	"github.com/tetratelabs/wazero/api"
)

// A module's state is its memory, how large that is, and its variable globals;
// tables do not change, for no allowed instruction writes one. Before an
// instance is used again, what a call can have changed becomes as tg_buf left
// it in a new one. So a quote depends on its request alone, and nothing of one
// tenant's request is there for the next.

// reach is what a call can change, as far as the code tells.
type reach struct {
	stores   span             // what is written at constant addresses
	anywhere bool             // whether other addresses are written too
	grows    bool             // whether there is a memory.grow
	globals  [maxGlobals]bool // that are set
}

// span is part of a memory.
type span struct{ from, to uint64 }

func (s span) with(o span) span {
	switch {
	case o.from >= o.to:
		return s
	case s.from >= s.to:
		return o
	}
	return span{min(s.from, o.from), max(s.to, o.to)}
}

// step is an instruction and its immediate.
type step struct {
	op    byte
	value int64
}

// pushes reports whether the instruction does nothing but push one value.
func (s step) pushes() bool {
	return s.op == opI32Const || s.op == opI64Const || s.op == opLocalGet || s.op == globalGet
}

// storeSize is how many bytes a store writes, 0 for any other instruction.
func storeSize(op byte) uint64 {
	switch op {
	case 0x36, 0x3e: // i32.store, i64.store32
		return 4
	case opI64Store:
		return 8
	case 0x3a, 0x3c: // store8
		return 1
	case 0x3b, 0x3d: // store16
		return 2
	}
	return 0
}

// note adds an instruction's effects. before are the three instructions in
// front of it. Where they push an address that is constant, as a table's code
// does, it is known what is written.
func (r *reach) note(s step, before [3]step) {
	switch size := storeSize(s.op); {
	case size > 0:
		if before[1].op != opI32Const || !before[2].pushes() {
			r.anywhere = true
			return
		}
		at := uint64(uint32(before[1].value)) + uint64(s.value)
		r.stores = r.stores.with(span{at, at + size})
	case s.op == opPrefix: // memory.copy, memory.fill: to, …, size
		if before[0].op != opI32Const || !before[1].pushes() || before[2].op != opI32Const {
			r.anywhere = true
			return
		}
		at := uint64(uint32(before[0].value))
		r.stores = r.stores.with(span{at, at + uint64(uint32(before[2].value))})
	case s.op == globalSet:
		if s.value < maxGlobals { // others do not exist, and the module is refused
			r.globals[s.value] = true
		}
	case s.op == 0x40:
		r.grows = true
	}
}

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

func (r *reach) initial(i *instance) initial {
	size := i.memory.Size()
	s := initial{size: size, grows: r.grows}
	for _, g := range i.globals {
		s.globals = append(s.globals, g.Get())
	}
	whole := span{0, uint64(size)}
	s.request = contentOf(i.memory, span{uint64(i.buffer), uint64(i.buffer) + requestHeader + maxPayee})
	written := r.stores
	if r.anywhere {
		written = whole
	}
	written.from, written.to = min(written.from, whole.to), min(written.to, whole.to)
	header := span{uint64(i.buffer), uint64(i.buffer) + requestHeader}
	if header.with(written) != header {
		s.written = contentOf(i.memory, written)
	}
	return s
}

func contentOf(m api.Memory, s span) content {
	c := content{from: uint32(s.from), size: uint32(s.to - s.from)}
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
