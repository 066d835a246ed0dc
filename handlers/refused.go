package handlers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"tollgate"
	"tollgate/handlers/problem"
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
func (c *connection) Write(b []byte) (int, error) {
	if c.answering.Load() {
		return c.Conn.Write(b)
	}
	for _, r := range refusals {
		if !bytes.HasPrefix(b, []byte(r.line)) {
			continue
		}
		if _, err := c.Conn.Write(c.server.refusal(r.code, r.param, r.message)); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// refusal is a whole answer.
func (s *Server) refusal(code tollgate.Code, param, message string) []byte {
	id := s.store.Mint(tollgate.PrefixRequest)
	a := problem.Of(&tollgate.Error{Code: code, Param: param, Message: message}, id)
	s.metrics.request("none", a.Status, 0)
	s.log.Info("request refused", "request_id", id, "status", a.Status, "code", code)
	s.countRefusal(context.Background(), id, string(code))
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\nRequest-Id: %s\r\n"+
		"X-Content-Type-Options: nosniff\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		a.Status, http.StatusText(a.Status), mediaProblem, id, len(a.Body), a.Body)
}
