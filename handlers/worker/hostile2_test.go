package worker_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv/redistest"
)

// peer is the receiver's side of one HTTP/2 connection, frame by frame.
type peer struct {
	net.Conn
	*http2.Framer

	block bytes.Buffer
	hpack *hpack.Encoder

	mu     sync.Mutex
	room   *sync.Cond
	window int64 // what may still be sent in DATA
	gone   bool
}

// writes is how many bytes a receiver that never ends sends at most.
const writes = 64 << 20

// listen reads what the other side sends until it is gone; done is closed when
// the request has ended.
func (p *peer) listen(done chan struct{}) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gone = true
		p.room.Broadcast()
	}()
	for ended := false; ; {
		f, err := p.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.WindowUpdateFrame:
			p.mu.Lock()
			if f.StreamID != 0 {
				p.window += int64(f.Increment)
			}
			p.room.Broadcast()
			p.mu.Unlock()
		case *http2.SettingsFrame:
			if n, ok := f.Value(http2.SettingInitialWindowSize); ok {
				p.mu.Lock()
				p.window += int64(n) - 65535
				p.mu.Unlock()
			}
		}
		if h := f.Header(); !ended && (h.Type == http2.FrameHeaders || h.Type == http2.FrameData) && h.Flags.Has(http2.FlagDataEndStream) {
			ended = true
			close(done)
		}
	}
}

// await waits until so much may be sent; false when the other side is gone.
func (p *peer) await(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.window < int64(n) && !p.gone {
		p.room.Wait()
	}
	p.window -= int64(n)
	return !p.gone
}

func (p *peer) fields(pairs ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = p.hpack.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1], Sensitive: true})
	}
	return bytes.Clone(p.block.Bytes())
}

func (p *peer) headers(end bool, pairs ...string) {
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(pairs...), EndHeaders: true, EndStream: end})
}

// raw writes a frame that the Framer would not.
func (p *peer) raw(kind http2.FrameType, flags http2.Flags, stream uint32, length int, payload string) error {
	_, err := p.Write(append([]byte{byte(length >> 16), byte(length >> 8), byte(length), byte(kind), byte(flags), byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, payload...))
	return err
}

// on goes on until the other side is gone.
func (p *peer) on(write func() error) {
	for sent := 0; sent < writes; sent += 1024 {
		if write() != nil {
			return
		}
	}
}

func (p *peer) drip(write func() error) {
	for write() == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *peer) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.gone {
		p.room.Wait()
	}
}

// receiver2 speaks HTTP/2 over TLS: it takes a whole request and then does what
// it is told. early is done before the request is read.
func receiver2(t testing.TB, early, answer func(*peer)) (url string, roots *x509.CertPool) {
	t.Helper()
	model := httptest.NewUnstartedServer(nil) // for its certificate
	model.StartTLS()
	roots = x509.NewCertPool()
	roots.AddCert(model.Certificate())
	config := &tls.Config{Certificates: model.TLS.Certificates, NextProtos: []string{"h2"}}
	model.Close()
	return "https" + strings.TrimPrefix(rawReceiver(t, func(c net.Conn) {
		secure := tls.Server(c, config)
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(secure, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		p := &peer{Conn: secure, Framer: http2.NewFramer(secure, secure), window: 65535}
		p.AllowIllegalWrites, p.room, p.hpack = true, sync.NewCond(&p.mu), hpack.NewEncoder(&p.block)
		var listening sync.WaitGroup
		defer listening.Wait()
		defer c.Close()
		requested := make(chan struct{})
		listening.Go(func() { p.listen(requested) })
		if early != nil {
			early(p)
			return
		}
		_ = p.WriteSettings()
		_ = p.WriteSettingsAck()
		select {
		case <-requested:
			answer(p)
		case <-time.After(20 * time.Second):
		}
	}), "http"), roots
}

// The same over HTTP/2, where one connection has many more ways to be wrong:
// the attempt fails in time, with bounded memory and in our own words.
func TestHostileReceivers2(t *testing.T) { // alone: it counts what is allocated
	ok := func(p *peer) { p.headers(false, ":status", "200") }
	page, bomb := strings.Repeat("a", 4096), []byte(bomb()[:8192])
	body := func(p *peer) error {
		if !p.await(len(page)) {
			return io.EOF
		}
		return p.WriteData(1, false, []byte(page))
	}
	then := func(first func(*peer), rest func(*peer)) func(*peer) {
		return func(p *peer) { first(p); rest(p) }
	}
	reset := func(code http2.ErrCode) func(*peer) {
		return func(p *peer) { _ = p.WriteRSTStream(1, code); p.hang() }
	}
	leave := func(last uint32, code http2.ErrCode) func(*peer) {
		return func(p *peer) { _ = p.WriteGoAway(last, code, []byte(page)); p.hang() }
	}
	hang := (*peer).hang
	const invalid = "response_invalid"
	for _, c := range []struct {
		name   string
		early  func(*peer)
		answer func(*peer)
		code   string // empty: whichever
		says   string
		status int
	}{
		{name: "endless headers", answer: func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(":status", "200")})
			p.on(func() error { return p.WriteContinuation(1, false, p.fields("x-a", page)) })
		}, code: invalid},
		{name: "headers over the limit", answer: func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(":status", "200")})
			for range 8 {
				_ = p.WriteContinuation(1, false, p.fields("x-a", page))
			}
			_ = p.WriteContinuation(1, true, nil)
			p.hang()
		}, code: invalid},
		{name: "empty continuations", answer: func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(":status", "200")})
			p.on(func() error { return p.WriteContinuation(1, false, nil) })
		}},
		{name: "a header bomb", answer: func(p *peer) { // one entry of the table, named again and again
			var b bytes.Buffer
			e := hpack.NewEncoder(&b)
			_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			for range 4000 {
				_ = e.WriteField(hpack.HeaderField{Name: "x-bomb", Value: page[:3900]})
			}
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b.Bytes(), EndHeaders: true})
			p.hang()
		}, code: invalid, says: "longer than 16 KiB"},
		{name: "an endless body", answer: then(ok, func(p *peer) { p.on(func() error { return body(p) }) }), code: invalid, says: "longer than 1 MiB", status: 200},
		{name: "a body without regard to the window", answer: then(ok, func(p *peer) { p.on(func() error { return p.WriteData(1, false, []byte(page)) }) }), code: invalid, status: 200},
		{name: "empty frames of a body", answer: then(ok, func(p *peer) { p.on(func() error { return p.WriteData(1, false, nil) }) }), status: 200},
		{name: "endless trailers", answer: then(ok, func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields("x-a", "b"), EndStream: true})
			p.on(func() error { return p.WriteContinuation(1, false, p.fields("x-a", page)) })
		}), code: invalid, status: 200},
		{name: "a storm of 1xx", answer: func(p *peer) {
			p.on(func() error {
				return p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(":status", "103", "link", "</a>"), EndHeaders: true})
			})
		}, code: invalid},
		{name: "a storm of pings", answer: func(p *peer) { p.on(func() error { return p.WritePing(false, [8]byte{}) }) }},
		{name: "a storm of settings", answer: func(p *peer) { p.on(func() error { return p.WriteSettings() }) }},
		{name: "a storm of unknown frames", answer: func(p *peer) { p.on(func() error { return p.WriteRawFrame(0xbe, 0, 1, []byte(page)) }) }},
		{name: "a compressed bomb", answer: func(p *peer) {
			p.headers(false, ":status", "200", "content-encoding", "gzip")
			_ = p.WriteData(1, true, bomb)
			p.hang()
		}, code: invalid, says: "Content-Encoding", status: 200},
		{name: "no status", answer: func(p *peer) { p.headers(true, "x-a", "b"); p.hang() }, code: invalid},
		{name: "a status of its own", answer: func(p *peer) { p.headers(true, ":status", "999"); p.hang() }, code: invalid, says: "no final HTTP status", status: 999},
		{name: "a status that is none", answer: func(p *peer) { p.headers(true, ":status", "ok"); p.hang() }, code: invalid},
		{name: "two statuses", answer: func(p *peer) { p.headers(true, ":status", "200", ":status", "204"); p.hang() }, code: invalid},
		{name: "a header in upper case", answer: func(p *peer) { p.headers(true, ":status", "200", "X-A", "b"); p.hang() }, code: invalid},
		{name: "broken compression of headers", answer: func(p *peer) { _ = p.raw(http2.FrameHeaders, 5, 1, 3, "\xff\xff\xff"); p.hang() }, code: invalid},
		{name: "a promise", answer: func(p *peer) {
			_ = p.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: p.fields(":method", "GET"), EndHeaders: true})
			p.hang()
		}, code: invalid},
		{name: "a frame that is too long", answer: func(p *peer) {
			_ = p.raw(http2.FrameData, 0, 1, 1<<24-1, "")
			p.on(func() error { _, err := p.Write([]byte(page)); return err })
		}, code: invalid},
		{name: "data before headers", answer: func(p *peer) { _ = p.WriteData(1, false, []byte("a")); p.hang() }, code: invalid},
		{name: "data on a stream that is none", answer: func(p *peer) { _ = p.WriteData(99, false, []byte("a")); p.hang() }, code: invalid},
		{name: "a window that overflows", answer: then(ok, func(p *peer) { _ = p.WriteWindowUpdate(0, 1<<31-1); _ = p.WriteWindowUpdate(0, 1<<31-1); p.hang() }), code: invalid, status: 200},
		{name: "a setting that is none", answer: func(p *peer) { _ = p.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}); p.hang() }, code: invalid},
		{name: "garbage", answer: func(p *peer) {
			p.on(func() error { _, err := io.WriteString(p.Conn, "\x00\xff\x16\x03 garbage"); return err })
		}, code: invalid},
		{name: "HTTP/1 instead", early: func(p *peer) {
			_, _ = io.WriteString(p.Conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			p.hang()
		}, code: invalid},
		{name: "reset before headers", answer: reset(http2.ErrCodeInternal), code: invalid, says: "closed before"},
		{name: "refused", answer: reset(http2.ErrCodeRefusedStream)},
		{name: "reset after headers", answer: then(ok, reset(http2.ErrCodeCancel)), code: invalid, says: "closed before", status: 200},
		{name: "reset in the body", answer: then(ok, func(p *peer) { _ = body(p); reset(http2.ErrCodeInternal)(p) }), code: invalid, status: 200},
		{name: "reset without an error in the body", answer: then(ok, func(p *peer) { _ = body(p); reset(http2.ErrCodeNo)(p) }), code: invalid, status: 200},
		{name: "told to go before headers", answer: leave(0, http2.ErrCodeNo), code: invalid, says: "closed before"},
		{name: "told to be calm", answer: leave(1, http2.ErrCodeEnhanceYourCalm), code: "timeout"}, // the stream may still end
		{name: "told to go after headers", answer: then(ok, leave(1, http2.ErrCodeInternal)), code: "timeout", status: 200},
		{name: "told to go gracefully, and nothing else", answer: leave(1, http2.ErrCodeNo), code: "timeout"},
		{name: "closed before headers", answer: func(*peer) {}, code: invalid, says: "closed before"},
		{name: "closed after headers", answer: ok, code: invalid, says: "closed before", status: 200},
		{name: "closed in the body", answer: then(ok, func(p *peer) { _ = body(p) }), code: invalid, says: "closed before", status: 200},
		{name: "closed in a frame", answer: then(ok, func(p *peer) { _ = p.raw(http2.FrameData, 0, 1, 100, "abc") }), code: invalid, says: "closed before", status: 200},
		{name: "less than announced", answer: func(p *peer) {
			p.headers(false, ":status", "200", "content-length", "10")
			_ = p.WriteData(1, true, []byte("abc"))
			p.hang()
		}, code: invalid, status: 200},
		{name: "silence at once", early: hang, code: "timeout"},
		{name: "silence", answer: hang, code: "timeout", says: "No answer came"},
		{name: "silence after headers", answer: then(ok, hang), code: "timeout", says: "did not end", status: 200},
		{name: "silence in the headers", answer: func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(":status", "200")})
			p.hang()
		}, code: "timeout"},
		{name: "a dripping body", answer: then(ok, func(p *peer) { p.drip(func() error { return p.WriteData(1, false, []byte("a")) }) }), code: "timeout", says: "did not end", status: 200},
		{name: "dripping pings", answer: then(ok, func(p *peer) { p.drip(func() error { return p.WritePing(false, [8]byte{}) }) }), code: "timeout", says: "did not end", status: 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, roots := receiver2(t, c.early, c.answer)
			before, after := tried(t, delivery.SenderConfig{Development: true, Roots: roots}, url, c.code, c.says, c.status)
			// What is held stays; what the receiver and others are letting go of
			// goes with one of the next collections.
			for range 100 {
				runtime.GC()
				runtime.ReadMemStats(&after)
				if after.HeapAlloc <= before.HeapAlloc+4<<20 {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Errorf("%d bytes are held", after.HeapAlloc-before.HeapAlloc)
		})
	}
}

// What a receiver does to the connection is an attempt that is kept, like any
// other, and the delivery is tried again.
func TestHostileAttemptsAreKept(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	for name, answer := range map[string]func(*peer){
		"reset":    func(p *peer) { _ = p.WriteRSTStream(1, http2.ErrCodeInternal); p.hang() },
		"sent off": func(p *peer) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); p.hang() },
		"endless": func(p *peer) {
			p.headers(false, ":status", "200")
			p.on(func() error { return p.WriteData(1, false, make([]byte, 4096)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, roots := receiver2(t, nil, answer)
			hook := s.hook(t, url, nil, newKey(t, 1, tollgate.SignatureV1))
			stop := s.work(t, worker.Config{Roots: roots, Timeouts: patient})
			s.pay(t, 1000)
			d := s.settled(t, hook, tollgate.DeliveryRetrying, 1)
			if a := s.attempts(t, d); len(a) != 1 || a[0].Status != tollgate.AttemptFailed || a[0].Error == nil || a[0].Error.Code != "response_invalid" {
				t.Errorf("%+v", a)
			}
			stop()
			s.remove(t, hook)
		})
	}
}
