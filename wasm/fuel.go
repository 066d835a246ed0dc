package wasm

import "encoding/binary"

// instrument returns the module with fuel counting and without custom
// sections. Fuel is a variable global behind the module's own, exported for
// the host under a name that no module may use; the module was validated
// without it, so none of its instructions can name it.
//
// Entering a function charges for all its instructions outside loops, a turn
// of a loop for all of the loop's own, whether they then run or not. That is
// an upper bound with one charge per entry, and it is taken before the work.
func (m *module) instrument() []byte {
	fuel := uint64(m.globals)

	globals := binary.AppendUvarint(nil, fuel+1)
	if s := m.sections[secGlobal]; s != nil {
		globals = append(globals, s[uvarintLen(s):]...)
	}
	globals = append(globals, typeI64, 1, opI64Const, 0, opEnd)

	exports := binary.AppendUvarint(nil, uint64(m.exports)+1)
	exports = append(exports, m.sections[secExport][uvarintLen(m.sections[secExport]):]...)
	exports = appendBytes(exports, fuelExport)
	exports = binary.AppendUvarint(append(exports, kindGlobal), fuel)

	code := binary.AppendUvarint(nil, uint64(len(m.bodies)))
	for i := range m.bodies {
		code = appendBytes(code, m.bodies[i].instrument(fuel))
	}

	sections := m.sections
	sections[secGlobal], sections[secExport], sections[secCode] = globals, exports, code
	return assemble(sections)
}

// bare returns the module as it came, without custom sections.
func (m *module) bare() []byte { return assemble(m.sections) }

func assemble(sections [secDataCount + 1][]byte) []byte {
	out := []byte(magic)
	for _, id := range sectionOrder {
		if s := sections[id]; s != nil {
			out = appendBytes(append(out, id), s)
		}
	}
	return out
}

func uvarintLen(b []byte) int {
	_, n := binary.Uvarint(b)
	return n
}

func (b *body) instrument(fuel uint64) []byte {
	// The size of a bulk operation goes through one more local.
	extra := false
	for _, c := range b.charges {
		extra = extra || c.bulk
	}
	var out []byte
	if extra {
		out = binary.AppendUvarint(out, uint64(b.groups)+1)
		out = append(out, b.code[b.groupAt:b.start]...)
		out = append(out, 1, typeI32)
	} else {
		out = append(out, b.code[:b.start]...)
	}
	out = charge{cost: b.cost}.append(out, fuel, 0)
	from := b.start
	for _, c := range b.charges {
		out = append(out, b.code[from:c.at]...)
		out = c.append(out, fuel, uint64(b.locals))
		from = c.at
	}
	return append(out, b.code[from:]...)
}

// append writes fuel = fuel - cost and traps when that is below zero.
func (c charge) append(out []byte, fuel, size uint64) []byte {
	const (
		get, set  = 0x23, 0x24 // global
		localGet  = 0x20
		localTee  = 0x22
		extendU   = 0xad
		shrU      = 0x88
		add       = 0x7c
		sub       = 0x7d
		ltS       = 0x53
		iff, void = 0x04, 0x40
		trap      = 0x00
	)
	if c.bulk {
		out = binary.AppendUvarint(append(out, localTee), size)
	}
	out = binary.AppendUvarint(append(out, get), fuel)
	out = appendSigned(append(out, opI64Const), c.cost)
	if c.bulk {
		out = binary.AppendUvarint(append(out, localGet), size)
		out = append(out, extendU, opI64Const, fuelShift, shrU, add)
	}
	out = binary.AppendUvarint(append(out, sub, set), fuel)
	out = binary.AppendUvarint(append(out, get), fuel)
	return append(out, opI64Const, 0, ltS, iff, void, trap, opEnd)
}
