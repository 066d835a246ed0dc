// Package input reads requests strictly: bodies, queries, cursors and headers.
// What two readers could take for two things is refused, and every fault of a
// request is named at once (interface §4, §7).
package input

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/problem"
)

// Limits of interface §8.
const (
	maxBody  = 64 << 10
	maxForm  = 16 << 10
	maxDepth = 16 // of nested JSON
)

// Body is what a route takes as body.
type Body int

// The kinds of bodies.
const (
	noBody Body = iota
	JSON
	OptionalJSON // every field is optional, so no body at all will do
	Form
)

// ReadBody reads a body up to its limit, 0 for the usual one.
func ReadBody(w http.ResponseWriter, req *http.Request, kind Body, most int64) ([]byte, error) {
	limit, media := int64(maxBody), "application/json"
	switch kind {
	case noBody:
		return nil, nil
	case Form:
		limit, media = maxForm, "application/x-www-form-urlencoded"
	}
	limit = cmp.Or(most, limit)
	typed := len(req.Header["Content-Type"]) > 0
	if typed || kind != OptionalJSON {
		if err := checkContentType(req, media); err != nil {
			return nil, err
		}
	}
	tooLarge := problem.New(tollgate.CodeBodyTooLarge, fmt.Sprintf("The body of this request has at most %d bytes.", limit))
	if req.ContentLength > limit { // not worth waiting for
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	if err != nil {
		return nil, &tollgate.Error{Code: tollgate.CodeInvalidJSON, Message: "The body did not arrive whole.", Cause: err}
	}
	if !typed && len(body) > 0 {
		return nil, checkContentType(req, media)
	}
	return body, nil
}

// Decode reads the one JSON object of a body and collects everything that is
// wrong with it.
func Decode[B any](body []byte, optional bool, read func(*Fields) B) (B, error) {
	var b B
	found := new(faults)
	f, err := begin(body, optional, found)
	if err == nil {
		if b = read(f); len(*found) == 1 {
			err = end(f, found, any(b))
		} else {
			err = end(f, found, nil)
		}
	}
	return b, err
}

// begin and end are what Decode does for all types: they are there once.
//
//go:noinline
func begin(body []byte, optional bool, found *faults) (*Fields, error) {
	if len(body) == 0 && optional {
		body = []byte("{}")
	}
	return opened(body, found)
}

//go:noinline
func end(f *Fields, found *faults, read any) error {
	if err := f.close(); err != nil {
		return err
	}
	if r, ok := read.(repeatable); ok && len(*found) == 1 && (*found)[0] == r.Refused() {
		return nil
	}
	return found.Err()
}

// repeatable is a request with a fault for which earlier releases did not refuse
// it: it is answered as it was then if it is a repeat, else refused.
type repeatable interface{ Refused() *tollgate.Error }

// opened takes a body apart in one pass. What that refuses is read again, to say why.
func opened(body []byte, found *faults) (*Fields, error) {
	f, err := membersOf(body, "", found)
	if err == nil && !deep(body) {
		return f, nil
	}
	if refusal := checkJSON(body); refusal != nil {
		return nil, refusal
	}
	return nil, invalidJSON("The body is not valid JSON in UTF-8.", err)
}

// deep reports whether valid JSON nests deeper than a body may.
func deep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// checkJSON refuses everything that two parsers could read differently:
// duplicate names, bad UTF-8, trailing data (RFC 8259 §4, §8.1), and what is
// no object or too deep.
func checkJSON(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != '{' {
		if _, err := d.ReadToken(); err == nil {
			return invalidJSON("The body is one JSON object.", nil)
		}
	}
	for {
		_, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && d.StackDepth() == 0 && d.InputOffset() > 0:
			return nil
		case errors.Is(err, jsontext.ErrDuplicateName):
			return invalidJSON("The body has an object with one name twice.", err)
		case err != nil:
			return invalidJSON("The body is not valid JSON in UTF-8.", err)
		case d.StackDepth() > maxDepth:
			return invalidJSON(fmt.Sprintf("The body nests deeper than %d levels.", maxDepth), nil)
		case d.StackDepth() == 0:
			if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
				return invalidJSON("The body has something after its JSON object.", err)
			}
			return nil
		}
	}
}

func invalidJSON(message string, cause error) *tollgate.Error {
	return &tollgate.Error{Code: tollgate.CodeInvalidJSON, Message: message, Cause: cause}
}
