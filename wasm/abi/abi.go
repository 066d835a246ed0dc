package abi

import (
	"fmt"
	"regexp"
)

// Names and numbers of ABI tollgate:rule/1 (see package wasm). Sizes are in bytes.
const (
	ExportMemory = "memory"
	ExportBuffer = "tg_buf"
	ExportQuote  = "quote"

	Version       = 1
	WindowSize    = 4096
	RequestHeader = 64
	ReplyHeader   = 16
	LineSize      = 24
	RefusalSize   = 32
	MaxLines      = 16
	StatusLines   = 0
	StatusRefusal = 1

	MaxPayee = 255
)

// MaxRefusalMessage is how many bytes of printable UTF-8 a refusal says at most.
const MaxRefusalMessage = 200

// RefusalCode is what a refusal's code looks like.
var RefusalCode = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// Refusal is a rule's considered "no", as opposed to its failure.
type Refusal struct{ Code, Message string }

func (r *Refusal) Error() string { return r.Message + " (" + r.Code + ")" }

// Check reports what is wrong with a refusal that a table names.
func (r *Refusal) Check() error {
	if !RefusalCode.MatchString(r.Code) {
		return fmt.Errorf("code %.60q is not of the form %s", r.Code, RefusalCode)
	}
	if !Printable([]byte(r.Message), MaxRefusalMessage) {
		return fmt.Errorf("message is not 1 to %d bytes of printable UTF-8", MaxRefusalMessage)
	}
	return nil
}
