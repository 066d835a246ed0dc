package wasm

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
