package wasm

import "encoding/binary"

// Instructions that tables compile to.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opBr          = 0x0c
	opReturn      = 0x0f
	opSelect      = 0x1b
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opI32Load     = 0x28
	opI64Load     = 0x29
	opI32Load8U   = 0x2d
	opI64Store    = 0x37
	opI32Eq       = 0x46
	opI64Eqz      = 0x50
	opI64Eq       = 0x51
	opI64LtS      = 0x53
	opI64GtS      = 0x55
	opI64LeS      = 0x57
	opI32And      = 0x71
	opI32Or       = 0x72
	opI32Eqz      = 0x45
	opI64Add      = 0x7c
	opI64Sub      = 0x7d
	opI64Mul      = 0x7e
	opI64DivU     = 0x80
	opI64And      = 0x83
	opI64Or       = 0x84
	opI64ExtendU  = 0xad
	opI32Add      = 0x6a
	opPrefix      = 0xfc
	blockVoid     = 0x40
)

// assembler collects instructions. Its methods return it for chaining, in the
// order of the stack machine.
type assembler struct{ code []byte }

func (a *assembler) op(ops ...byte) *assembler {
	a.code = append(a.code, ops...)
	return a
}

func (a *assembler) i32(n int32) *assembler {
	a.code = appendSigned(append(a.code, opI32Const), int64(n))
	return a
}

func (a *assembler) i64(n int64) *assembler {
	a.code = appendSigned(append(a.code, opI64Const), n)
	return a
}

func (a *assembler) get(local byte) *assembler { return a.op(opLocalGet, local) }
func (a *assembler) set(local byte) *assembler { return a.op(opLocalSet, local) }

// begin opens a block, a loop or an if without a result; opEnd closes it.
func (a *assembler) begin(op byte) *assembler { return a.op(op, blockVoid) }

// memory is a load or store; alignment is a hint and the lowest is always
// allowed.
func (a *assembler) memory(op byte, offset int) *assembler {
	a.code = binary.AppendUvarint(append(a.code, op, 0), uint64(offset))
	return a
}

// store writes a constant at a fixed address.
func (a *assembler) store(address int, n uint64) *assembler {
	return a.i32(0).i64(int64(n)).memory(opI64Store, address)
}

// copy moves n bytes between fixed addresses.
func (a *assembler) copy(to, from, n int) *assembler {
	return a.i32(int32(to)).i32(int32(from)).i32(int32(n)).op(opPrefix, 10, 0, 0)
}
