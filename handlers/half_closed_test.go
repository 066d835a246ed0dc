package handlers_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that has sent its last byte and closed its half of the connection
// still reads: it gets the answer, never an empty 200.
func TestHalfClosedClients(t *testing.T) {
	s := start(t)
	s.authenticate()
	// Time for the server to see the end before it asks Redis: work that ends
	// with the connection has ended by then.
	pause := func() { time.Sleep(20 * time.Millisecond) }
	s.tick.Store(&pause)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"whole":      {"GET /v1/transactions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.token + "\r\n\r\n", 200},
		"stranger":   {"GET /v1/transactions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a.b.c\r\n\r\n", 401},
		"waiting":    {"GET /v1/events?types=payout.paid&wait=2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.token + "\r\n\r\n", 200},
		"cut body":   {"POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.token + "\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", 400},
		"cut chunks": {"POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.token + "\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", 400},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(conn, c.request)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			if r.StatusCode != c.status || r.ContentLength == 0 {
				t.Errorf("%d with %d bytes, want %d", r.StatusCode, r.ContentLength, c.status)
			}
		})
	}
}
