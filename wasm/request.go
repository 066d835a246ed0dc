package wasm

import (
	"encoding/binary"

	"tollgate"
	"tollgate/wasm/abi"
)

// putRequest writes a request into the window and returns its length. The
// payee has at most maxPayee bytes, so it always fits.
func putRequest(w []byte, in *tollgate.PricingInput, exponent byte, lines int, sum int64) uint32 {
	le := binary.LittleEndian
	total := uint32(abi.RequestHeader + len(in.Payee))
	_ = w[abi.RequestHeader+abi.MaxPayee]
	le.PutUint16(w[0:], abi.Version)
	le.PutUint16(w[2:], abi.RequestHeader)
	le.PutUint32(w[4:], total)
	le.PutUint64(w[8:], uint64(in.Amount.Minor))
	le.PutUint64(w[16:], 0)
	copy(w[16:24], in.Amount.Currency)
	le.PutUint32(w[24:], uint32(exponent))
	le.PutUint32(w[28:], abi.RequestHeader)
	le.PutUint32(w[32:], uint32(len(in.Payee)))
	le.PutUint32(w[36:], total)
	le.PutUint32(w[40:], 0)
	le.PutUint32(w[44:], uint32(lines))
	le.PutUint64(w[48:], uint64(sum))
	le.PutUint32(w[56:], in.CaptureIndex)
	kind := uint32(abi.RequestPayment)
	if in.Refund {
		kind = abi.RequestRefund
	}
	le.PutUint32(w[abi.RequestKind:], kind)
	copy(w[abi.RequestHeader:], in.Payee)
	return total
}
