package worker_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollgate"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv/webhooks"
)

// What goes out is Standard Webhooks, to an independent reader of it, on both
// sides of a rotation.
func TestRequest(t *testing.T) {
	old, fresh, asymmetric := newKey(t, 1, tollgate.SignatureV1), newKey(t, 2, tollgate.SignatureV1), newKey(t, 2, tollgate.SignatureV1a)
	var got *http.Request
	var body []byte
	r := receiver(t, func(w http.ResponseWriter, req *http.Request) {
		got = req
		body, _ = io.ReadAll(req.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	s := newSender(t, delivery.SenderConfig{Development: true, Version: "1.2.3"})
	m := message(r.URL+"/hooks?a=b", old, fresh, asymmetric)
	m.Body = []byte("{\"object\":\"event\",\"text\":\"\u00fc \\u00fc\"}\n")
	sent := s.Send(t.Context(), m)
	if !sent.Succeeded() || sent.Response.StatusCode != 204 {
		t.Fatalf("%+v", sent)
	}
	if !bytes.Equal(body, m.Body) || got.Method != http.MethodPost || got.RequestURI != "/hooks?a=b" || got.ContentLength != int64(len(m.Body)) {
		t.Errorf("%s %s: %q", got.Method, got.RequestURI, body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Tollgate/1.2.3 (webhooks)", "Webhook-Id": "evt_1", "Accept-Encoding": "identity",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
	if len(got.Header) != 7 { // with Content-Length and the two that are checked below
		t.Errorf("%v", got.Header)
	}
	for _, k := range []tollgate.WebhookKey{old, fresh} {
		hook, err := standardwebhooks.NewWebhook(k.Text())
		if err != nil {
			t.Fatal(err)
		}
		if err := hook.Verify(body, got.Header); err != nil {
			t.Errorf("version %d: %v", k.Version, err)
		}
		if hook.Verify(append(body, ' '), got.Header) == nil {
			t.Error("another body verifies")
		}
	}
	verifyV1a(t, asymmetric, got.Header, body)
	stranger, err := standardwebhooks.NewWebhook(newKey(t, 1, tollgate.SignatureV1).Text())
	if err != nil {
		t.Fatal(err)
	}
	if stranger.Verify(body, got.Header) == nil {
		t.Error("another key verifies")
	}
}

// verifyV1a checks the Ed25519 signature with the standard library alone.
func verifyV1a(t *testing.T, k tollgate.WebhookKey, h http.Header, body []byte) {
	t.Helper()
	text, _ := strings.CutPrefix(k.Text(), "whpk_")
	public, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(public) != ed25519.PublicKeySize {
		t.Fatalf("%q: %v", k.Text(), err)
	}
	signed := fmt.Sprintf("%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body)
	for part := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		if sum, ok := strings.CutPrefix(part, "v1a,"); ok {
			raw, err := base64.StdEncoding.DecodeString(sum)
			if err != nil || !ed25519.Verify(public, []byte(signed), raw) {
				t.Errorf("%s does not verify: %v", part, err)
			}
			return
		}
	}
	t.Errorf("no v1a signature in %q", h.Get("Webhook-Signature"))
}

// The timestamp is that of the attempt by the Sender's clock.
func TestTimestamp(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 999e6, time.UTC)
	var stamp string
	r := receiver(t, func(_ http.ResponseWriter, req *http.Request) { stamp = req.Header.Get("Webhook-Timestamp") })
	s := newSender(t, delivery.SenderConfig{Development: true, Clock: func() time.Time { return now }})
	for range 2 {
		now = now.Add(90 * time.Second)
		sent := s.Send(t.Context(), message(r.URL, newKey(t, 1, tollgate.SignatureV1)))
		if stamp != strconv.FormatInt(now.Unix(), 10) || sent.Started != tollgate.At(now) {
			t.Errorf("%s, %s", stamp, sent.Started)
		}
	}
}

// A redirect is a failed answer; where it leads is never asked.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var asked atomic.Int32
	inside := receiver(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		r := receiver(t, func(w http.ResponseWriter, req *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			w.Header().Set("Location", inside.URL)
			w.WriteHeader(status)
			if req.Header.Get("Cookie") != "" {
				t.Error("a cookie came back")
			}
		})
		s := newSender(t, delivery.SenderConfig{Development: true})
		for range 2 {
			sent := s.Send(t.Context(), message(r.URL))
			if sent.Succeeded() || sent.Error != nil || sent.Response.StatusCode != status || sent.Response.Headers["Location"] != inside.URL {
				t.Errorf("%d: %+v", status, sent)
			}
		}
	}
	if asked.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// What is kept of an answer is bounded and valid text; what is longer says so.
func TestAnswerIsKept(t *testing.T) {
	body := strings.Repeat("ü", 4<<10)[1:]
	r := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 40 {
			w.Header().Set(fmt.Sprintf("X-%02d", i), "a")
		}
		w.Header().Set("A-Long", strings.Repeat("é", 1000))
		w.Header()["A-Twice"] = []string{"a", "b"}
		w.Header().Set("A-Bytes", "a\xffb")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, body)
	})
	s := newSender(t, delivery.SenderConfig{Development: true})
	sent := s.Send(t.Context(), message(r.URL))
	a := sent.Response
	if sent.Error != nil || a.StatusCode != 400 || !a.Truncated || len(a.Body) > 4<<10 || len(a.Body) < 4<<10-3 || !utf8.ValidString(a.Body) {
		t.Errorf("%v, %d bytes, truncated %t, valid %t", sent.Error, len(a.Body), a.Truncated, utf8.ValidString(a.Body))
	}
	if len(a.Headers) != 32 || a.Headers["A-Twice"] != "a, b" || a.Headers["A-Bytes"] != "a\uFFFDb" || len(a.Headers["A-Long"]) != 1024 {
		t.Errorf("%d headers: %v", len(a.Headers), a.Headers)
	}
	body = strings.Repeat("\xffa", 1500) // not text: it grows, and is cut
	if sent := s.Send(t.Context(), message(r.URL)); !sent.Response.Truncated || len(sent.Response.Body) > 4<<10 || !utf8.ValidString(sent.Response.Body) {
		t.Errorf("a body that grows: truncated %t, %d bytes", sent.Response.Truncated, len(sent.Response.Body))
	}
	body = strings.Repeat("a", 4<<10)
	if sent := s.Send(t.Context(), message(r.URL)); sent.Response.Truncated || sent.Response.Body != body {
		t.Errorf("a body of just 4 KiB: truncated %t, %d bytes", sent.Response.Truncated, len(sent.Response.Body))
	}
}

// A short answer in an encoding that was not asked for is an answer like any
// other, and only its status is kept of it; a long one may be a bomb.
func TestEncodedAnswer(t *testing.T) {
	for _, c := range []struct {
		status, bytes int
		taken         bool
		code          string
	}{
		{200, 4 << 10, true, ""},
		{503, 4 << 10, false, ""},
		{200, 4<<10 + 1, false, "response_invalid"},
	} {
		r := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, strings.Repeat("z", c.bytes))
		})
		sent := newSender(t, delivery.SenderConfig{Development: true}).Send(t.Context(), message(r.URL))
		code := ""
		if sent.Error != nil {
			code = sent.Error.Code
		}
		if a := sent.Response; sent.Succeeded() != c.taken || code != c.code || a.StatusCode != c.status || a.Body != "" || !a.Truncated {
			t.Errorf("%d with %d bytes: succeeded %t, %q, status %d, %d bytes kept, truncated %t", c.status, c.bytes, sent.Succeeded(), code, a.StatusCode, len(a.Body), a.Truncated)
		}
	}
}

// As many connections are kept as an endpoint has attempts at once. One that
// comes back late is made anew; that does not happen each time.
func TestConnectionsOfABusyEndpoint(t *testing.T) {
	const atOnce = webhooks.MostAtOnce
	var made atomic.Int32
	arrived, answer := make(chan struct{}, atOnce), make(chan struct{})
	r := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	r.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	s := newSender(t, delivery.SenderConfig{Development: true, Timeouts: patient})
	for round := range 6 {
		before := made.Load()
		var attempts sync.WaitGroup
		for range atOnce {
			attempts.Go(func() {
				if sent := s.Send(t.Context(), message(r.URL)); !sent.Succeeded() {
					t.Errorf("%+v", sent.Error)
				}
			})
		}
		for range atOnce {
			<-arrived
		}
		for range atOnce {
			answer <- struct{}{}
		}
		attempts.Wait()
		if round > 0 && made.Load() == before {
			return
		}
	}
	t.Errorf("%d connections for six times %d attempts", made.Load(), atOnce)
}

func TestTLS(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, req.Proto) })
	start := func(change func(*tls.Config)) *httptest.Server {
		r := httptest.NewUnstartedServer(handler)
		r.EnableHTTP2 = true
		r.TLS = new(tls.Config)
		change(r.TLS)
		r.Config.ErrorLog = log.New(io.Discard, "", 0)
		r.StartTLS()
		t.Cleanup(r.Close)
		return r
	}
	good := start(func(*tls.Config) {})
	roots := x509.NewCertPool()
	roots.AddCert(good.Certificate())
	s := newSender(t, delivery.SenderConfig{Development: true, Roots: roots, Timeouts: patient})
	sent := s.Send(t.Context(), message(good.URL))
	if !sent.Succeeded() || sent.Response.Body != "HTTP/2.0" || sent.Timing.TLSMS == nil || sent.Timing.ConnectMS == nil || sent.Timing.FirstByteMS == nil || sent.Timing.DNSMS != nil {
		t.Errorf("%+v %+v", sent, sent.Error)
	}
	for name, c := range map[string]struct {
		url   string
		roots *x509.CertPool
		clock func() time.Time
		says  string
	}{
		"an unknown authority": {good.URL, nil, nil, "not signed by an authority"},
		"another host":         {strings.Replace(good.URL, "127.0.0.1", "localhost", 1), roots, nil, "for another host"},
		"expired":              {good.URL, roots, func() time.Time { return time.Now().AddDate(200, 0, 0) }, "has expired"},
		"TLS 1.1":              {start(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }).URL, roots, nil, "1.2 or newer"},
		"no TLS":               {"https" + strings.TrimPrefix(receiver(t, handler).URL, "http"), roots, nil, "1.2 or newer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSender(t, delivery.SenderConfig{Development: true, Roots: c.roots, Timeouts: patient, Clock: c.clock})
			sent := s.Send(t.Context(), message(c.url))
			if sent.Response != nil || sent.Error == nil || sent.Error.Code != "tls_failed" || !strings.Contains(sent.Error.Message, c.says) {
				t.Errorf("%+v", sent.Error)
			}
		})
	}
}

// An attempt that is broken off from outside ends at once.
func TestCanceled(t *testing.T) {
	arrived := make(chan struct{})
	r := receiver(t, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		close(arrived)
		<-req.Context().Done()
	})
	s := newSender(t, delivery.SenderConfig{Development: true})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	start := time.Now()
	if sent := s.Send(ctx, message(r.URL)); sent.Succeeded() || sent.TimedOut || time.Since(start) > 12*time.Second {
		t.Errorf("%+v", sent)
	}
}

// Connections are used again, also after an answer that was not kept whole;
// phases that did not happen have no time. A machine that stalls while the rest
// of an answer is read gives the connection up; not each time.
func TestConnectionsAreUsedAgain(t *testing.T) {
	var mu sync.Mutex
	var peers []string
	r := receiver(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		peers = append(peers, req.RemoteAddr)
		mu.Unlock()
		_, _ = io.WriteString(w, strings.Repeat("a", 100<<10))
	})
	for range 5 {
		s := newSender(t, delivery.SenderConfig{Development: true, Timeouts: patient})
		first, second := s.Send(t.Context(), message(r.URL)), s.Send(t.Context(), message(r.URL))
		if !first.Succeeded() || !second.Succeeded() {
			t.Fatalf("%+v, %+v", first.Error, second.Error)
		}
		mu.Lock()
		last := peers[len(peers)-2:]
		mu.Unlock()
		if last[0] != last[1] {
			continue
		}
		if first.Timing.ConnectMS == nil || second.Timing.ConnectMS != nil || second.Timing.FirstByteMS == nil {
			t.Errorf("%+v, %+v", first.Timing, second.Timing)
		}
		return
	}
	t.Errorf("each attempt had a connection of its own: %v", peers)
}

// A kept connection that the receiver closes just as the next attempt begins
// costs no attempt.
func TestStaleConnection(t *testing.T) {
	served := 0
	url := rawReceiver(t, func(c net.Conn) {
		if readRequest(c) == nil {
			return
		}
		served++
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if served == 1 {
			_, _ = c.Read(make([]byte, 1)) // closes when the second request comes
		}
	})
	s := newSender(t, delivery.SenderConfig{Development: true, Timeouts: patient})
	for range 2 {
		if sent := s.Send(t.Context(), message(url)); !sent.Succeeded() {
			t.Errorf("%+v", sent.Error)
		}
	}
}
