package abi

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Instrumented is a module that keeps within the limits, with fuel counting as
// the engine runs it: the exported global "tollgate.fuel" is set to FuelPerCall
// before a call, and a call that takes it below zero traps. Whether the code is
// valid is not looked at.
func Instrumented(code []byte) ([]byte, error) {
	m, err := Parse(code)
	if err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	return m.Instrument(), nil
}

// Instrument returns the module with fuel counting and a limit to nested
// calls, without custom sections. Fuel is a variable global behind the
// module's own, and so is the number of calls that are left, in a module that
// has any; both are exported for the host under names that no module may use.
// The module was validated without them, so none of its instructions can name
// them.
//
// Entering a function charges for all its instructions outside loops, a turn
// of a loop for all of the loop's own, whether they then run or not. That is
// an upper bound with one charge per entry, and it is taken before the work.
// A call takes one from the calls that are left and gives it back when it
// returns; the function that it enters looks.
//
// Globals that a call can change are exported too, so that the host can reset
// them (package wasm, state.go).
//
// The memory's maximum is written down, so that memory.grow ends at the same
// page in every engine.
func (m *Module) Instrument() []byte {
	added := counters{fuel: uint64(m.globals), calls: uint64(m.globals) + 1, nested: m.calls}
	names := []string{FuelExport}
	if added.nested {
		names = append(names, CallsExport)
	}

	globals := binary.AppendUvarint(nil, uint64(m.globals+len(names)))
	if s := m.sections[secGlobal]; s != nil {
		globals = append(globals, s[uvarintLen(s):]...)
	}
	own := m.ExportedGlobals()
	exports := binary.AppendUvarint(nil, uint64(len(m.exports)+len(names)+len(own)))
	exports = append(exports, m.sections[SecExport][uvarintLen(m.sections[SecExport]):]...)
	for i, initial := range []int64{0, MaxCalls}[:len(names)] {
		globals = append(AppendSigned(append(globals, TypeI64, 1, OpI64Const), initial), OpEnd)
		exports = AppendBytes(exports, names[i])
		exports = binary.AppendUvarint(append(exports, kindGlobal), uint64(m.globals+i))
	}
	for _, g := range own {
		exports = AppendBytes(exports, g.Name)
		exports = binary.AppendUvarint(append(exports, kindGlobal), uint64(g.index))
	}

	code := binary.AppendUvarint(nil, uint64(len(m.bodies)))
	for i := range m.bodies {
		code = AppendBytes(code, m.bodies[i].instrument(added))
	}

	memory := binary.AppendUvarint([]byte{1, 1}, uint64(m.Pages))
	memory = binary.AppendUvarint(memory, uint64(m.maxPages))

	sections := m.sections
	sections[SecMemory], sections[secGlobal], sections[SecExport], sections[SecCode] = memory, globals, exports, code
	return Assemble(sections)
}

// Bare returns the module as it came, without custom sections.
func (m *Module) Bare() []byte { return Assemble(m.sections) }

// Assemble writes a module of the contents of its sections; nil is none.
func Assemble(sections [SecDataCount + 1][]byte) []byte {
	out := []byte(Magic)
	for _, id := range sectionOrder {
		if s := sections[id]; s != nil {
			out = AppendBytes(append(out, id), s)
		}
	}
	return out
}

// ExportedGlobal is a variable global and the name that it is exported under.
type ExportedGlobal struct {
	Name  string
	index int
}

// ExportedGlobals are those of the module's globals that a call can change,
// each under a name that the module has not taken itself.
func (m *Module) ExportedGlobals() (all []ExportedGlobal) {
	for n, set := range m.Reach.globals[:m.globals] {
		if !set {
			continue
		}
		name := globalExport + strconv.Itoa(n)
		for m.exports[name] {
			name += "."
		}
		all = append(all, ExportedGlobal{name, n})
	}
	return all
}

func uvarintLen(b []byte) int {
	_, n := binary.Uvarint(b)
	return n
}

// counters are the globals that instrumentation adds.
type counters struct {
	fuel, calls uint64
	nested      bool // whether the module has calls
}

// Instructions of what is added.
const (
	globalGet   = 0x23
	globalSet   = 0x24
	localTee    = 0x22
	i64ShrU     = 0x88
	trapWhenNeg = "\x42\x00\x53\x04\x40\x00\x0b" // i64.const 0, i64.lt_s, if, unreachable, end
)

func (b *body) instrument(g counters) []byte {
	// The size of a bulk operation goes through one more local.
	extra := false
	for _, c := range b.charges {
		extra = extra || c.bulk
	}
	var out []byte
	if extra {
		out = binary.AppendUvarint(out, uint64(b.groups)+1)
		out = append(out, b.code[b.groupAt:b.start]...)
		out = append(out, 1, TypeI32)
	} else {
		out = append(out, b.code[:b.start]...)
	}
	out = g.enter(out, b.cost)
	from, charges, calls := b.start, b.charges, b.calls
	for len(charges) > 0 || len(calls) > 0 {
		if len(calls) == 0 || len(charges) > 0 && charges[0].at <= calls[0].from {
			out = append(out, b.code[from:charges[0].at]...)
			out = g.charge(out, charges[0], uint64(b.locals))
			from, charges = charges[0].at, charges[1:]
			continue
		}
		out = append(out, b.code[from:calls[0].from]...)
		out = g.add(out, -1)
		out = append(out, b.code[calls[0].from:calls[0].to]...)
		out = g.add(out, 1)
		from, calls = calls[0].to, calls[1:]
	}
	return append(out, b.code[from:]...)
}

// enter takes the cost of a function and traps when fuel or calls are below
// zero. Both are looked at in one comparison: it is the hot path, and every
// jump takes time to compile.
func (g counters) enter(out []byte, cost int64) []byte {
	out = g.take(out, charge{cost: cost}, 0)
	if g.nested {
		out = binary.AppendUvarint(append(out, globalGet), g.calls)
		out = append(out, OpI64Or)
	}
	return append(out, trapWhenNeg...)
}

// charge takes fuel and traps when that is below zero.
func (g counters) charge(out []byte, c charge, size uint64) []byte {
	return append(g.take(out, c, size), trapWhenNeg...)
}

// take writes fuel = fuel - cost and leaves it on the stack.
func (g counters) take(out []byte, c charge, size uint64) []byte {
	if c.bulk {
		out = binary.AppendUvarint(append(out, localTee), size)
	}
	out = binary.AppendUvarint(append(out, globalGet), g.fuel)
	out = AppendSigned(append(out, OpI64Const), c.cost)
	if c.bulk {
		out = binary.AppendUvarint(append(out, OpLocalGet), size)
		out = append(out, OpI64ExtendU, OpI64Const, fuelShift, i64ShrU, OpI64Add)
	}
	out = binary.AppendUvarint(append(out, OpI64Sub, globalSet), g.fuel)
	return binary.AppendUvarint(append(out, globalGet), g.fuel)
}

// add writes calls = calls + n.
func (g counters) add(out []byte, n int64) []byte {
	out = binary.AppendUvarint(append(out, globalGet), g.calls)
	out = AppendSigned(append(out, OpI64Const), n)
	return binary.AppendUvarint(append(out, OpI64Add, globalSet), g.calls)
}
