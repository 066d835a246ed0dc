package wasm

// Instructions that tables compile to, and those that are counted or read.
const (
	opEnd         = 0x0b
	opI32Const    = 0x41
	opI64Const    = 0x42
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
