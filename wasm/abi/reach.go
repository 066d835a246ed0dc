package abi

// Reach is what a call can change, as far as the code tells.
type Reach struct {
	Stores   Span             // what is written at constant addresses
	Anywhere bool             // whether other addresses are written too
	Grows    bool             // whether there is a memory.grow
	globals  [maxGlobals]bool // that are set
}

// Span is part of a memory.
type Span struct{ From, To uint64 }

// With is the smallest part that has both.
func (s Span) With(o Span) Span {
	switch {
	case o.From >= o.To:
		return s
	case s.From >= s.To:
		return o
	}
	return Span{min(s.From, o.From), max(s.To, o.To)}
}

// step is an instruction and its immediate.
type step struct {
	op    byte
	value int64
}

// pushes reports whether the instruction does nothing but push one value.
func (s step) pushes() bool {
	return s.op == OpI32Const || s.op == OpI64Const || s.op == OpLocalGet || s.op == globalGet
}

// storeSize is how many bytes a store writes, 0 for any other instruction.
func storeSize(op byte) uint64 {
	switch op {
	case 0x36, 0x3e: // i32.store, i64.store32
		return 4
	case OpI64Store:
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
func (r *Reach) note(s step, before [3]step) {
	switch size := storeSize(s.op); {
	case size > 0:
		if before[1].op != OpI32Const || !before[2].pushes() {
			r.Anywhere = true
			return
		}
		at := uint64(uint32(before[1].value)) + uint64(s.value)
		r.Stores = r.Stores.With(Span{at, at + size})
	case s.op == OpPrefix: // memory.copy, memory.fill: to, …, size
		if before[0].op != OpI32Const || !before[1].pushes() || before[2].op != OpI32Const {
			r.Anywhere = true
			return
		}
		at := uint64(uint32(before[0].value))
		r.Stores = r.Stores.With(Span{at, at + uint64(uint32(before[2].value))})
	case s.op == globalSet:
		if s.value < maxGlobals { // others do not exist, and the module is refused
			r.globals[s.value] = true
		}
	case s.op == 0x40:
		r.Grows = true
	}
}
