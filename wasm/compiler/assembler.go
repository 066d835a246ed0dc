package compiler

import (
	"encoding/binary"

	"tollgate/wasm/abi"
)

// assembler collects instructions. Its methods return it for chaining, in the
// order of the stack machine.
type assembler struct{ code []byte }

func (a *assembler) op(ops ...byte) *assembler {
	a.code = append(a.code, ops...)
	return a
}

func (a *assembler) i32(n int32) *assembler {
	a.code = abi.AppendSigned(append(a.code, abi.OpI32Const), int64(n))
	return a
}

func (a *assembler) i64(n int64) *assembler {
	a.code = abi.AppendSigned(append(a.code, abi.OpI64Const), n)
	return a
}

func (a *assembler) get(local byte) *assembler { return a.op(abi.OpLocalGet, local) }
func (a *assembler) set(local byte) *assembler { return a.op(abi.OpLocalSet, local) }

// begin opens a block, a loop or an if without a result; opEnd closes it.
func (a *assembler) begin(op byte) *assembler { return a.op(op, abi.BlockVoid) }

// memory is a load or store; alignment is a hint and the lowest is always
// allowed.
func (a *assembler) memory(op byte, offset int) *assembler {
	a.code = binary.AppendUvarint(append(a.code, op, 0), uint64(offset))
	return a
}

// store writes a constant at a fixed address.
func (a *assembler) store(address int, n uint64) *assembler {
	return a.i32(0).i64(int64(n)).memory(abi.OpI64Store, address)
}

// copy moves n bytes between fixed addresses.
func (a *assembler) copy(to, from, n int) *assembler {
	return a.i32(int32(to)).i32(int32(from)).i32(int32(n)).op(abi.OpPrefix, 10, 0, 0)
}
