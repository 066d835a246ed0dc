package abi

import (
	"bytes"
	"fmt"
)

const (
	// RefundSection is the custom section of a module that takes part in
	// refunds. Builds that do not know it pass over it.
	RefundSection = "tollgate.refund"

	// refundVersion is the section's one byte: what a refund's request is.
	refundVersion = 1
)

// The kinds of a request, at RequestKind in it. A module that does not take
// part in refunds sees payments only.
const (
	RequestKind    = 60
	RequestPayment = 0
	RequestRefund  = 1
)

// RefundContent is the custom section of a module that takes part in refunds,
// its name in front.
func RefundContent() []byte {
	return append(AppendBytes(nil, RefundSection), refundVersion)
}

// parseRefund refuses another version: a module that needs a newer request must
// not be given this one.
func parseRefund(b []byte) (bool, error) {
	switch {
	case bytes.Equal(b, []byte{refundVersion}):
		return true, nil
	case len(b) == 1:
		return false, fmt.Errorf("section %q is of version %d, and this build knows version %d", RefundSection, b[0], refundVersion)
	}
	return false, fmt.Errorf("section %q has %d bytes, not one with its version, %d", RefundSection, len(b), refundVersion)
}
