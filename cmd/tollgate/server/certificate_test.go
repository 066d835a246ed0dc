package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/handlers/connection"
	"tollgate/handlers/share"
	"tollgate/rediskv/testkit"
)

// files are those of a certificate, in a folder of their own.
type files struct {
	t         *testing.T
	cert, key string
	log       *testkit.Log
	now       time.Time
}

func newFiles(t *testing.T) *files {
	dir := t.TempDir()
	return &files{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), new(testkit.Log), time.Now()}
}

func (f *files) put(file string, text ...[]byte) {
	f.t.Helper()
	var all []byte
	for _, part := range text {
		all = append(all, part...)
	}
	if err := os.WriteFile(file, all, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *files) open(key string) *certificate {
	f.t.Helper()
	c, err := openCertificate(f.cert, key, func() time.Time { return f.now }, slog.New(slog.NewJSONHandler(f.log, nil)))
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// told is how often the log has a text.
func (f *files) told(text string) int { return strings.Count(f.log.String(), text) }

// served is a server of a certificate, as serve has it for the API.
type served struct {
	addr    string
	refused chan tollgate.Code
	broken  chan error
	server  *http.Server
}

func (c *certificate) served(t *testing.T, patience time.Duration) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{l.Addr().String(), make(chan tollgate.Code, 10), make(chan error, 10), nil}
	s.server = HTTPServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if own := connection.Of(req); own != nil {
			defer own.Sent(w)
			if own.Begin().Fault != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		fmt.Fprintf(w, "%s %t", req.Proto, connection.Proxies(nil).Secure(req))
	}), slog.New(slog.DiscardHandler))
	s.server.ReadHeaderTimeout = patience
	inside, protocols := c.listen(l)
	s.server.Protocols = protocols
	host := connection.Host{
		Refuse: func(code tollgate.Code, _, _ string) []byte {
			s.refused <- code
			return []byte("HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		},
		Turn:   func(string, string) (*share.Held, error) { return nil, errors.New("none") },
		Broken: func(_ net.Addr, err error) { s.broken <- err },
	}
	go func() { _ = s.server.Serve(connection.Listen(inside, host)) }()
	t.Cleanup(func() { s.server.Close() })
	return s
}

// shown is the name in the certificate that a new connection gets.
func (s *served) shown(t *testing.T) string {
	t.Helper()
	c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true}) // the test knows which it should be
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// A certificate is followed from file to file; what cannot be used changes nothing, and
// the log says so once.
func TestCertificateIsReadAgain(t *testing.T) {
	f := newFiles(t)
	far := f.now.Add(90 * 24 * time.Hour).Truncate(time.Second)
	first, firstKey := clitest.Certificate(t, "first", far)
	f.put(f.cert, first)
	f.put(f.key, firstKey)
	c := f.open(f.key)
	s := c.served(t, time.Minute)
	c.look()
	if is := s.shown(t); is != "first" || f.log.String() != "" || !c.expires().Equal(far) {
		t.Fatalf("%s until %s: %s", is, c.expires(), f.log)
	}

	second, secondKey := clitest.Certificate(t, "second", far.Add(time.Hour))
	spoils := map[string]func(){
		"the other key is not there yet": func() { f.put(f.cert, second) },
		"half a file":                    func() { f.put(f.cert, second[:len(second)/2]) },
		"no file": func() {
			if err := os.Remove(f.cert); err != nil {
				t.Fatal(err)
			}
		},
		"no key": func() { f.put(f.key) },
	}
	for _, name := range append(slices.Sorted(maps.Keys(spoils)), "the other key is not there yet") { // one comes back after all was well
		before := f.told("its files cannot be used")
		spoils[name]()
		c.look()
		c.look()
		if is := s.shown(t); is != "first" || !c.expires().Equal(far) {
			t.Errorf("%s: %s until %s", name, is, c.expires())
		}
		if told := f.told("its files cannot be used") - before; told != 1 {
			t.Errorf("%s: told %d times", name, told)
		}
		f.put(f.cert, first)
		f.put(f.key, firstKey)
		c.look()
	}

	f.put(f.cert, second)
	f.put(f.key, secondKey)
	c.look()
	c.look()
	if is := s.shown(t); is != "second" || !c.expires().Equal(far.Add(time.Hour)) || f.told(`"msg":"certificate"`) != 1 {
		t.Errorf("%s until %s: %s", is, c.expires(), f.log)
	}
	// One file may have both.
	third, thirdKey := clitest.Certificate(t, "third", far)
	f.put(f.cert, thirdKey, third)
	whole := f.open("")
	if is := whole.served(t, time.Minute).shown(t); is != "third" {
		t.Error(is)
	}
}

// The log says that a certificate ends, from two weeks before on and once a day.
func TestCertificateExpires(t *testing.T) {
	f := newFiles(t)
	until := f.now.Add(20 * 24 * time.Hour)
	cert, key := clitest.Certificate(t, "leaf", until.Add(time.Hour))
	above, _ := clitest.Certificate(t, "above", until)
	f.put(f.cert, cert, above, key)
	c := f.open("")
	const soon = "the certificate expires soon"
	for days, want := range []int{0, 0, 0, 0, 0, 0, 1, 2, 3} {
		f.now = until.Add(time.Duration(days-20) * 24 * time.Hour).Add(time.Second)
		c.look()
		c.look()
		if f.told(soon) != want {
			t.Errorf("%d days before: told %d times, want %d", 20-days, f.told(soon), want)
		}
	}
	for _, next := range []struct {
		days time.Duration
		want int
	}{{13, 4}, {90, 4}} { // another one that ends soon is told of at once
		cert, key = clitest.Certificate(t, "next", f.now.Add(next.days*24*time.Hour))
		f.put(f.cert, cert, key)
		c.look()
		if f.told(soon) != next.want {
			t.Errorf("one for %d days: told %d times, want %d", next.days, f.told(soon), next.want)
		}
	}
}

func TestOpenCertificate(t *testing.T) {
	f := newFiles(t)
	if c, err := openCertificate("", "", time.Now, nil); c != nil || err != nil {
		t.Errorf("%v %v", c, err)
	}
	cert, key := clitest.Certificate(t, "a", time.Now().Add(time.Hour))
	_, other := clitest.Certificate(t, "b", time.Now().Add(time.Hour))
	f.put(f.cert, cert)
	for want, paths := range map[string][2]string{
		"set TOLLGATE_TLS_CERT":      {"", f.key},
		"no such file":               {f.cert + ".not", f.key},
		"its key":                    {f.cert, f.key},
		"found a certificate":        {f.cert, ""},
		"private key does not match": {f.cert, f.cert + ".key"},
	} {
		f.put(f.cert+".key", other)
		if _, err := openCertificate(paths[0], paths[1], time.Now, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", paths, err, want)
		}
	}
	f.put(f.key, key)
	f.open(f.key)
}

// Clients talk HTTP/1.1 and HTTP/2, TLS 1.2 and newer; everything else ends at the door.
func TestTLSConnections(t *testing.T) {
	f := newFiles(t)
	cert, key := clitest.Certificate(t, "a", time.Now().Add(90*24*time.Hour))
	f.put(f.cert, cert, key)
	s := f.open("").served(t, time.Minute)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	for want, second := range map[string]bool{"HTTP/1.1 true": false, "HTTP/2.0 true": true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: second}
		defer transport.CloseIdleConnections()
		for range 3 { // on one connection
			r, err := (&http.Client{Transport: transport}).Get("https://" + s.addr + "/")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			if r.Body.Close(); err != nil || string(body) != want {
				t.Errorf("%q %v, want %s", body, err, want)
			}
		}
	}
	// HTTP/2 is agreed on in the handshake, or it is no HTTP.
	surprise := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) {
		return tls.Dial("tcp", s.addr, &tls.Config{RootCAs: roots})
	}}
	surprise.Protocols.SetUnencryptedHTTP2(true)
	defer surprise.CloseIdleConnections()
	for range 3 {
		r, err := (&http.Client{Transport: surprise}).Get("http://" + s.addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		if r.Body.Close(); r.StatusCode != http.StatusBadRequest {
			t.Errorf("HTTP/2 without a word: %s", r.Status)
		}
	}
	if _, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is talked")
	}
	if err := soon(t, s.broken); !strings.Contains(err.Error(), "version") {
		t.Error(err)
	}

	// Plain http is answered, so that somebody understands.
	for _, request := range []string{"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "POST /v1/payments HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000)} {
		if code := s.answers(t, request); code != http.StatusMisdirectedRequest || soon(t, s.refused) != tollgate.CodeTLSRequired {
			t.Errorf("%.20s: %d", request, code)
		}
		soon(t, s.broken)
	}
	// Who talks neither is not.
	if code := s.answers(t, "SSH-2.0-OpenSSH_9.9\r\n"); code != 0 || len(s.refused) > 0 {
		t.Errorf("%d, and %d refusals", code, len(s.refused))
	}
	soon(t, s.broken)

	// Requests that are cut in two ways are refused inside TLS as outside.
	inside, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	fmt.Fprint(inside, "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(inside), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Body.Close(); r.StatusCode != http.StatusMisdirectedRequest || soon(t, s.refused) != tollgate.CodeParameterInvalid {
		t.Errorf("a malformed request: %s", r.Status)
	}
}

// A client that begins a handshake and goes no further is let go.
func TestSlowHandshakes(t *testing.T) {
	f := newFiles(t)
	cert, key := clitest.Certificate(t, "a", time.Now().Add(90*24*time.Hour))
	f.put(f.cert, cert, key)
	s := f.open("").served(t, 50*time.Millisecond)
	for name, begun := range map[string]string{"nothing": "", "some of a record": "\x16\x03\x01\x02\x00\x01"} {
		if code := s.answers(t, begun); code != 0 {
			t.Errorf("%s: %d", name, code)
		}
		if err, timeout := soon(t, s.broken).(net.Error); !timeout || !err.Timeout() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// soon is what a server tells next.
func soon[T any](t *testing.T, from chan T) (told T) {
	t.Helper()
	select {
	case told = <-from:
	case <-time.After(20 * time.Second):
		t.Fatal("the server tells nothing")
	}
	return told
}

// answers is the status of the answer to bytes without TLS; 0: the connection ended.
func (s *served) answers(t *testing.T, text string) int {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for piece := range slices.Chunk([]byte(text), 1000) {
		if _, err := c.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err, timeout := err.(net.Error); timeout && err.Timeout() {
		t.Fatal("the connection is held")
	}
	if err != nil {
		return 0
	}
	r.Body.Close()
	return r.StatusCode
}
