package wasm

import (
	"fmt"
	"regexp"
)

// Names and numbers of ABI tollgate:rule/1 (package comment).
const (
	exportMemory = "memory"
	exportBuffer = "tg_buf"
	exportQuote  = "quote"

	abiVersion    = 1
	windowSize    = 4096
	requestHeader = 64
	replyHeader   = 16
	lineSize      = 24
	refusalSize   = 32
	maxLines      = 16
	statusLines   = 0
	statusRefusal = 1

	maxPayee = 255
)

const (
	maxRefusalMessage = 200 // bytes of printable UTF-8
)

var refusalCode = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// refusal is a rule's considered "no", as opposed to its failure.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return r.message + " (" + r.code + ")" }

func (r *refusal) check() error {
	if !refusalCode.MatchString(r.code) {
		return fmt.Errorf("code %.60q is not of the form %s", r.code, refusalCode)
	}
	if !printable([]byte(r.message), maxRefusalMessage) {
		return fmt.Errorf("message is not 1 to %d bytes of printable UTF-8", maxRefusalMessage)
	}
	return nil
}
