package abi

import "fmt"

// body is one function's code as the fuel counter needs it.
type body struct {
	code    []byte // locals and instructions, without the length in front
	locals  int    // parameters included
	groups  int    // of locals, as declared
	start   int    // of the instructions in code
	groupAt int    // end of the count of groups in code
	jumps   int
	cost    int64 // of entering: all instructions outside loops
	charges []charge
	calls   []call
}

// charge is a place where fuel is taken inside a function.
type charge struct {
	at   int // in body.code
	cost int64
	bulk bool // and the size on top of the stack
}

// call is an instruction that calls a function.
type call struct{ from, to int } // in body.code

func (m *Module) readCode(c *Cursor) {
	n := c.count("function bodies", maxFunctions)
	if n != len(m.funcs) {
		c.fail("%d function bodies for %d functions", n, len(m.funcs))
	}
	jumps := 0
	for i := range n {
		code := c.Bytes(c.count("bytes in a function", maxBody))
		if c.Err != nil {
			return
		}
		b, err := readBody(code, len(m.types[m.funcs[i]].params), &m.Reach)
		if err != nil {
			c.fail("function %d: %w", i, err)
			return
		}
		m.bodies = append(m.bodies, b)
		m.calls = m.calls || len(b.calls) > 0
		if jumps += b.jumps; jumps > maxAllJumps {
			c.fail("more than %d jumps in all functions", maxAllJumps)
		}
	}
}

// readBody goes through a function once. It refuses instructions outside the
// allowed set, works out what entering the function and each loop costs, and
// adds to r what it can change.
func readBody(code []byte, params int, r *Reach) (body, error) {
	c := &Cursor{B: code}
	b := body{code: code, locals: params}
	b.groups = c.count("groups of locals", maxLocals)
	b.groupAt = c.Pos
	for range b.groups {
		b.locals += c.count("locals", maxLocals)
		c.valueType()
		if b.locals > maxLocals {
			c.fail("more than %d locals", maxLocals)
		}
		if c.Err != nil {
			return b, c.Err
		}
	}
	b.start = c.Pos

	// open holds, for each open block, whose cost its instructions add to:
	// that of the charge with this index, or -1 for the function's entry.
	open := []int{-1}
	var before [3]step
	b.cost = fuelPerEntry + int64(b.locals)
	for len(open) > 0 && c.Err == nil {
		at := c.Pos
		in := open[len(open)-1]
		if in < 0 {
			b.cost++
		} else {
			b.charges[in].cost++
		}
		kind := c.instruction()
		if c.Err == nil {
			now := step{code[at], c.value}
			r.note(now, before)
			before = [3]step{before[1], before[2], now}
		}
		switch kind {
		case isBlock:
			open = append(open, in)
		case isLoop:
			b.charges = append(b.charges, charge{at: c.Pos})
			open = append(open, len(b.charges)-1)
		case isEnd:
			open = open[:len(open)-1]
		case isGrow:
			b.charges = append(b.charges, charge{at: at, cost: fuelPerGrow})
		case isBulk:
			b.charges = append(b.charges, charge{at: at, bulk: true})
		case isCall:
			b.calls = append(b.calls, call{at, c.Pos})
		}
		if len(open) > maxDepth {
			c.fail("blocks are nested deeper than %d", maxDepth)
		}
		if c.jumps > maxJumps {
			c.fail("more than %d jumps", maxJumps)
		}
		if len(b.charges) > maxCharges {
			c.fail("more than %d loops, bulk operations and memory.grow", maxCharges)
		}
	}
	b.jumps = c.jumps
	if c.Err == nil && c.Left() > 0 {
		c.fail("code follows the end")
	}
	if c.Err != nil {
		return b, fmt.Errorf("at byte %d: %w", c.Pos, c.Err)
	}
	return b, nil
}

// What an instruction means for fuel.
type instructionKind int

const (
	isPlain instructionKind = iota
	isBlock
	isLoop
	isEnd
	isGrow
	isBulk
	isCall
)

// instruction passes over one instruction and keeps the value of a constant,
// the offset of a load or store, the index of a local or global. What is not listed here is not
// allowed: floats, vectors, threads, exceptions, tail calls, references,
// passive segments.
func (c *Cursor) instruction() instructionKind {
	op := c.U8()
	switch {
	case op == OpEnd:
		return isEnd
	case op == 0x00, op == 0x01, op == 0x05, op == 0x0f, // unreachable, nop, else, return
		op == 0x1a, op == 0x1b, // drop, select
		op >= 0x45 && op <= 0x5a, // integer comparisons
		op >= 0x67 && op <= 0x8a, // integer arithmetic
		op == 0xa7,               // i32.wrap_i64
		op == 0xac, op == 0xad,   // i64.extend_i32
		op >= 0xc0 && op <= 0xc4: // sign extension
	case op >= 0x02 && op <= 0x04: // block, loop, if
		if t := c.U8(); t != 0x40 && t != TypeI32 && t != TypeI64 {
			c.fail("block type 0x%02x: none, i32 and i64 are allowed", t)
		}
		if op == 0x03 {
			return isLoop
		}
		if op == 0x04 {
			c.jumps++
		}
		return isBlock
	case op == 0x0c, op == 0x0d: // br, br_if
		c.jumps++
		c.U32()
	case op >= 0x20 && op <= 0x24: // locals and globals
		c.value = int64(c.U32())
	case op == 0x10: // call
		c.U32()
		return isCall
	case op == 0x0e: // br_table
		for range c.count("targets of a br_table", maxTargets) {
			c.jumps++
			c.U32()
		}
		c.U32()
	case op == 0x11: // call_indirect
		c.U32()
		if c.U32() != 0 {
			c.fail("call_indirect through a table other than 0")
		}
		return isCall
	case op == 0x28, op == 0x29, op >= 0x2c && op <= 0x37, op >= 0x3a && op <= 0x3e: // loads and stores
		c.U32()
		c.value = int64(c.U32())
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		c.zero()
		if op == 0x40 {
			return isGrow
		}
	case op == OpI32Const:
		c.value = c.signed(5)
	case op == OpI64Const:
		c.value = c.signed(10)
	case op == 0xfc:
		switch sub := c.U32(); sub {
		case 10: // memory.copy
			c.zero()
			c.zero()
		case 11: // memory.fill
			c.zero()
		default:
			c.fail("instruction 0xfc %d is not allowed", sub)
		}
		return isBulk
	default:
		c.fail("instruction 0x%02x is not allowed", op)
	}
	return isPlain
}

func (c *Cursor) zero() {
	if c.U8() != 0 {
		c.fail("a memory index is not 0")
	}
}
