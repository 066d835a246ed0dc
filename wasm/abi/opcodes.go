package abi

// Instructions that tables compile to, and those that are counted or read.
const (
	OpEnd         = 0x0b
	OpI32Const    = 0x41
	OpI64Const    = 0x42
	OpUnreachable = 0x00
	OpBlock       = 0x02
	OpLoop        = 0x03
	OpIf          = 0x04
	OpElse        = 0x05
	OpBr          = 0x0c
	OpReturn      = 0x0f
	OpSelect      = 0x1b
	OpLocalGet    = 0x20
	OpLocalSet    = 0x21
	OpI32Load     = 0x28
	OpI64Load     = 0x29
	OpI32Load8U   = 0x2d
	OpI64Store    = 0x37
	OpI32Eq       = 0x46
	OpI64Eqz      = 0x50
	OpI64Eq       = 0x51
	OpI64LtS      = 0x53
	OpI64GtS      = 0x55
	OpI64LeS      = 0x57
	OpI32And      = 0x71
	OpI32Or       = 0x72
	OpI32Eqz      = 0x45
	OpI64Add      = 0x7c
	OpI64Sub      = 0x7d
	OpI64Mul      = 0x7e
	OpI64DivU     = 0x80
	OpI64And      = 0x83
	OpI64Or       = 0x84
	OpI64ExtendU  = 0xad
	opI32Add      = 0x6a
	OpPrefix      = 0xfc
	BlockVoid     = 0x40
)
