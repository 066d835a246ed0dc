package connection

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// FuzzFraming: a connection gives net/http the bytes that came, request by
// request, and calls none good that tells its length in two ways.
func FuzzFraming(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\nHost: a\nContent-Length: 3\n\nabc\r\nGET / HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 1\r\n 2\r\nA:\r\n b\r\n\r\nabcdef",
		"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nabGET / HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 1000)
	}
	twice := regexp.MustCompile(`(?i)\n(content-length|transfer-encoding)[ \t]*:`)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		framed := &Conn{Conn: &stream{bytes.NewReader(text), max(1, size)}}
		got, want := bufio.NewReader(framed), bufio.NewReader(bytes.NewReader(text))
		for {
			a, errA := http.ReadRequest(got)
			_, _ = want.Peek(1)
			rest, _ := want.Peek(want.Buffered())
			b, errB := http.ReadRequest(want)
			if (errA == nil) != (errB == nil) {
				t.Fatalf("framed: %v, plain: %v", errA, errB)
			}
			if errA != nil {
				return
			}
			is := framed.Begin()
			if is.Fault != nil {
				return
			}
			if len(a.TransferEncoding) > 0 && !is.Final {
				t.Fatal("more is run behind chunks")
			}
			head := rest
			if end := regexp.MustCompile(`\n\r?\n`).FindIndex(bytes.TrimLeft(rest, "\r\n")); end != nil {
				head = bytes.TrimLeft(rest, "\r\n")[:end[0]+1]
			}
			seen := map[string]bool{}
			for _, m := range twice.FindAllSubmatch(head, -1) {
				seen[strings.ToLower(string(m[1]))] = true
			}
			if len(rest) > 0 && len(seen) > 1 {
				t.Fatalf("two lengths: %q", head)
			}
			bodyA, errA := io.ReadAll(a.Body)
			bodyB, errB := io.ReadAll(b.Body)
			if a.Method != b.Method || a.RequestURI != b.RequestURI || !bytes.Equal(bodyA, bodyB) || (errA == nil) != (errB == nil) {
				t.Fatalf("%s %s %q (%v), plain: %s %s %q (%v)", a.Method, a.RequestURI, bodyA, errA, b.Method, b.RequestURI, bodyB, errB)
			}
			if is.Final || errA != nil {
				return
			}
		}
	})
}

// stream is a connection that brings at most size bytes at a time.
type stream struct {
	*bytes.Reader
	size int
}

func (s *stream) Read(b []byte) (int, error)     { return s.Reader.Read(b[:min(len(b), s.size)]) }
func (*stream) Write(b []byte) (int, error)      { return len(b), nil }
func (*stream) Close() error                     { return nil }
func (*stream) LocalAddr() net.Addr              { return nil }
func (*stream) RemoteAddr() net.Addr             { return nil }
func (*stream) SetDeadline(time.Time) error      { return nil }
func (*stream) SetReadDeadline(time.Time) error  { return nil }
func (*stream) SetWriteDeadline(time.Time) error { return nil }
