package rediskv

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// Every record names its format in an envelope: "format", "format;codec" or
// "format;codec;checksum". There is one format, and no codec yet; a checksum, in
// hex, is accepted and not compared. A record of before has no envelope and is
// read as format 1. Anything else was written by a release that this one does not
// know: it is damage, and nothing is read of it.
//
// Where the envelope is:
//
//	hash, entry of a log          the field envelopeField
//	JSON text of its own          the first member, envelopeMember
//	record of a request           before its first line, with a slash
//
// Versions of perimeters and rule sets are still written without one: the build
// before compares their text when the same file is provisioned again. So are
// attempts, whose text it answers with. They are read with one, so that the next
// release can write it.
//
// What is no record has none: indexes, counters, queues, marks, locks, and what
// names its own format (WebAssembly modules, chunks of export files).
const (
	Envelope       = "1"
	EnvelopeField  = "e"
	envelopeMember = `{"$":"`
)

// CheckEnvelope reports a format that this release does not know.
func CheckEnvelope(text string) error {
	format, rest, _ := strings.Cut(text, ";")
	codec, sum, _ := strings.Cut(rest, ";")
	if text == "" || format == Envelope && codec == "" && strings.Trim(sum, "0123456789abcdef") == "" {
		return nil
	}
	return fmt.Errorf("its format %q is not known", text)
}

// Enveloped is the JSON of an object as a text of its own.
func Enveloped(object any) ([]byte, error) {
	const begin = envelopeMember + Envelope + `"`
	b := bytes.NewBuffer(make([]byte, 0, 2048))
	b.WriteString(begin)
	if err := json.MarshalWrite(b, object, json.Deterministic(true)); err != nil {
		return nil, err
	}
	text := b.Bytes()
	text[len(begin)] = ',' // where the object's own members begin
	return text, nil
}

// Opened is what enveloped was given, as JSON, and its envelope.
func Opened(text string) (object, of string) {
	if rest, ok := strings.CutPrefix(text, envelopeMember); ok {
		of, rest, _ = strings.Cut(rest, `",`)
		return "{" + rest, of
	}
	return text, ""
}

// Document reads the document of a hash, and pairs of JSON text and target.
func (f Fields) Document(into any, more ...any) error {
	if err := CheckEnvelope(f[EnvelopeField]); err != nil {
		return err
	}
	return Decode(f["json"], into, more...)
}
