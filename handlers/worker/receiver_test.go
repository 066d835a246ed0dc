package worker_test

import (
	"bufio"
	"crypto/rand"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker/delivery"
)

var (
	// brief are time-outs that tests can wait for.
	brief = delivery.Timeouts{Connect: 400 * time.Millisecond, TLS: 400 * time.Millisecond, All: 600 * time.Millisecond}
	// patient are those of attempts that have to end by something else, however
	// slow the machine is.
	patient = delivery.Timeouts{Connect: 20 * time.Second, TLS: 20 * time.Second, All: 20 * time.Second}
)

// awaited are brief if a time-out is what an attempt has to end by.
func awaited(code string) delivery.Timeouts {
	if code == "timeout" {
		return brief
	}
	return patient
}

// The environment names a proxy for the whole of this package's tests: net/http
// reads it once per process. Nothing listens there. net/http's client writes
// what receivers do wrong to the standard log; the service silences that, too.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		os.Setenv(name, "http://127.0.0.1:9")
	}
	os.Exit(m.Run())
}

// newSender is a Sender that leaves no goroutine behind.
func newSender(t testing.TB, c delivery.SenderConfig) *delivery.Sender {
	t.Helper()
	before := runtime.NumGoroutine()
	if c.Clock == nil {
		c.Clock = time.Now
	}
	s := delivery.NewSender(c)
	t.Cleanup(func() {
		s.Close()
		until(t, "the end of the sender's goroutines", func() bool { return runtime.NumGoroutine() <= before })
	})
	return s
}

// rawReceiver answers each connection with a function and then closes it.
func rawReceiver(t testing.TB, answer func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-stopped
	})
	go func() {
		defer close(stopped)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answer(c)
			c.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/hooks"
}

// readRequest takes a whole request off a connection, so that closing it does
// not reset it.
func readRequest(c net.Conn) *http.Request {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil
	}
	body := make([]byte, 4096)
	for {
		if _, err := req.Body.Read(body); err != nil {
			return req
		}
	}
}

func receiver(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func newKey(t testing.TB, version int, scheme tollgate.SignatureScheme) tollgate.WebhookKey {
	t.Helper()
	k, err := tollgate.NewWebhookKey(version, scheme, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func message(url string, keys ...tollgate.WebhookKey) delivery.Message {
	return delivery.Message{URL: url, EventID: "evt_1", Body: []byte(`{"object":"event"}`), Keys: keys}
}
