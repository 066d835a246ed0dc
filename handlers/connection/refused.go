package connection

import (
	"bytes"

	"tollgate"
)

// refusals are net/http's own answers by their status lines, where HTTP itself
// refuses a request before any handler sees it: a malformed line or header, a
// path that is not percent-encoded, headers beyond the server's own limit.
// net/http answers those in plain text, and with 501 or 505 for what is only a
// client's mistake; a client of this API reads one shape of error (interface
// §7). Each is written at once and closes the connection.
var refusals = []struct {
	line    string
	code    tollgate.Code
	param   string
	message string
}{
	{"HTTP/1.1 400 Bad Request", tollgate.CodeParameterInvalid, "", "The request is not well-formed HTTP."},
	{"HTTP/1.1 431 Request Header Fields Too Large", tollgate.CodeHeadersTooLarge, "", "The headers of this request are too large."},
	{"HTTP/1.1 501 Not Implemented", tollgate.CodeParameterInvalid, "Transfer-Encoding", "Transfer-Encoding is chunked or nothing."},
	{"HTTP/1.1 505 HTTP Version Not Supported", tollgate.CodeParameterInvalid, "", "The request is not HTTP/1.0 or HTTP/1.1."},
	{"HTTP/1.1 417 Expectation Failed", tollgate.CodeParameterInvalid, "Expect", "Expect is 100-continue or nothing."},
}

// Write sends b, or a problem in place of a refusal. While a handler answers
// nothing is looked at: a file or a module may hold any bytes.
func (c *Conn) Write(b []byte) (int, error) {
	if c.answering.Load() || c.http2 {
		return c.Conn.Write(b)
	}
	for _, r := range refusals {
		if !bytes.HasPrefix(b, []byte(r.line)) {
			continue
		}
		if _, err := c.Conn.Write(c.host.Refuse(r.code, r.param, r.message)); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return c.Conn.Write(b)
}
