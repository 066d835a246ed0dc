package connection

import (
	"bytes"
	"math"
	"strconv"

	"tollgate"
)

// framing finds where each request on a connection ends, because net/http drops
// Content-Length without a word where Transfer-Encoding stands beside it: a
// proxy that goes by the other one sees one request where we would run two
// (RFC 9112 §6.3, §11.2). What it cannot tell for certain is a fault: the
// request is refused, and nothing behind it on the connection is ever run.
type framing struct {
	head []byte // of the request that is being received
	line int    // where in head the last line begins
	body int64  // bytes that the body still has; endless: the rest of the connection
	done bool   // frame is that of a whole head that no handler has asked for
	Frame
}

// Frame is what the head of a request says of its length.
type Frame struct {
	Fault *tollgate.Error // why the request must not be run
	Final bool            // nothing behind the request is run
}

const (
	endless     = math.MaxInt64
	maxHeadSeen = 128 << 10 // above what net/http takes
	keptHead    = 4 << 10   // more memory than this is not kept for the next request
)

var (
	headerLength, headerEncoding = []byte("Content-Length"), []byte("Transfer-Encoding")
	preface                      = []byte("PRI ") // RFC 9113 §3.4
	malformed                    = &tollgate.Error{Code: tollgate.CodeParameterInvalid, Message: "The request is not well-formed HTTP."}
)

// take is told what was received, and returns how much of it is to be read
// before anything else: up to the end of the head, or up to that of the body.
func (f *framing) take(b []byte) (n int) {
	if f.body > 0 {
		n = int(min(f.body, int64(len(b))))
		if f.body != endless {
			f.body -= int64(n)
		}
		return n
	}
	for n < len(b) {
		end := bytes.IndexByte(b[n:], '\n') + 1
		if end == 0 {
			f.head = append(f.head, b[n:]...)
			n = len(b)
			break
		}
		f.head = append(f.head, b[n:n+end]...)
		n += end
		switch blank := len(bytes.TrimSuffix(f.head[f.line:], []byte("\r\n"))) == 0 || f.head[f.line] == '\n'; {
		case blank && f.line == 0:
			f.head = f.head[:0] // empty lines before a request; net/http says whether they may stand there
		case blank:
			f.ended()
			return n
		default:
			f.line = len(f.head)
		}
	}
	if len(f.head) > maxHeadSeen {
		f.give(Frame{malformed, true}, endless)
	}
	return n
}

// between reports whether what comes next begins a request.
func (f *framing) between() bool { return f.body == 0 && len(f.head) == 0 }

// last is the frame of the request that a handler has been given.
func (f *framing) last() Frame {
	if !f.done { // net/http has seen the end of a head where this has not
		return Frame{malformed, true}
	}
	f.done = false
	return f.Frame
}

// ended looks at a whole head.
func (f *framing) ended() {
	var length []byte
	var encoded, ofLength bool
	first, rest, _ := bytes.Cut(f.head, []byte("\n"))
	for line := range bytes.Lines(rest) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if folded := line[0] == ' ' || line[0] == '\t'; folded && ofLength { // RFC 9112 §5.2
			f.give(Frame{malformed, true}, endless)
			return
		} else if folded {
			continue
		}
		ofLength = named(name, headerLength)
		switch {
		case named(name, headerEncoding):
			encoded = true
		case ofLength:
			value = bytes.Trim(value, " \t\r\n")
			if length != nil && !bytes.Equal(length, value) {
				f.give(Frame{malformed, true}, endless)
				return
			}
			length = value
		}
	}
	switch {
	case bytes.HasPrefix(first, preface): // HTTP/2 that was not agreed on: nothing on this connection is run
		f.give(Frame{malformed, true}, endless)
	case encoded && length != nil:
		f.give(Frame{ambiguous("A request has Content-Length or Transfer-Encoding, not both."), true}, endless)
	case encoded && !bytes.HasSuffix(bytes.TrimRight(first, "\r"), []byte(" HTTP/1.1")):
		f.give(Frame{ambiguous("Only HTTP/1.1 has Transfer-Encoding."), true}, endless)
	case encoded:
		// Where chunks end only net/http knows, so no request may follow.
		f.give(Frame{nil, true}, endless)
	case length != nil:
		n, err := strconv.ParseUint(string(length), 10, 63)
		if err != nil {
			f.give(Frame{malformed, true}, endless)
			return
		}
		f.give(Frame{nil, n == endless}, int64(n))
	default:
		f.give(Frame{}, 0)
	}
}

// named compares a header's name. One with blanks around it is taken for the
// same here, and refused by net/http.
func named(name, header []byte) bool {
	return len(name) >= len(header) && bytes.EqualFold(bytes.TrimSpace(name), header)
}

// give is what a head came to.
func (f *framing) give(is Frame, body int64) {
	f.Frame, f.body, f.done, f.line = is, body, true, 0
	if f.head = f.head[:0]; cap(f.head) > keptHead {
		f.head = nil
	}
}

func ambiguous(message string) *tollgate.Error {
	return &tollgate.Error{Code: tollgate.CodeParameterInvalid, Param: "Transfer-Encoding", Message: message}
}
