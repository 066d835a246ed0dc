package worker_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/worker/delivery"
)

// repeat writes until the other side has had enough.
func repeat(c net.Conn, text string) {
	b := []byte(strings.Repeat(text, 1+4096/len(text)))
	for {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// drip writes a byte at a time, and stops when the other side is gone.
func drip(c net.Conn, text string) {
	for i := 0; ; i++ {
		if _, err := c.Write([]byte{text[i%len(text)]}); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// hang waits until the other side is gone.
func hang(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func bomb() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 16 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String())
}

// Whatever a receiver does, the attempt fails within its time and with bounded
// memory, and says what happened in our own words.
func TestHostileReceivers(t *testing.T) { // alone: it counts what is allocated
	say := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, text)
		}
	}
	sayThen := func(text string, then func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) {
			say(text)(c)
			then(c)
		}
	}
	const closed = "closed before the answer was complete"
	for _, c := range []struct {
		name   string
		answer func(net.Conn)
		code   string
		says   string
		status int // 0: none
	}{
		{"endless headers", sayThen("HTTP/1.1 200 OK\r\n", func(c net.Conn) { repeat(c, "X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n") }), "response_invalid", "longer than 16 KiB", 0},
		{"one endless header", sayThen("HTTP/1.1 200 OK\r\nX-A: ", func(c net.Conn) { repeat(c, "a") }), "response_invalid", "longer than 16 KiB", 0},
		{"an endless status", sayThen("HTTP/1.1 200 ", func(c net.Conn) { repeat(c, "OK") }), "response_invalid", "longer than 16 KiB", 0},
		{"an endless body", sayThen("HTTP/1.1 200 OK\r\n\r\n", func(c net.Conn) { repeat(c, "a") }), "response_invalid", "longer than 1 MiB", 200},
		{"an endless chunked body", sayThen("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", func(c net.Conn) { repeat(c, "4\r\naaaa\r\n") }), "response_invalid", "longer than 1 MiB", 200},
		{"an endless chunk size", sayThen("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", func(c net.Conn) { repeat(c, "0") }), "response_invalid", "not HTTP", 200},
		{"endless chunk extensions", sayThen("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;", func(c net.Conn) { repeat(c, "x") }), "response_invalid", "not HTTP", 200},
		{"endless trailers", sayThen("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", func(c net.Conn) { repeat(c, "X-A: a\r\n") }), "response_invalid", "not HTTP", 200},
		{"a storm of 1xx", func(c net.Conn) { readRequest(c); repeat(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") }, "response_invalid", "longer than 16 KiB", 0},
		{"a storm of 100", func(c net.Conn) { readRequest(c); repeat(c, "HTTP/1.1 100 Continue\r\n\r\n") }, "response_invalid", "longer than 16 KiB", 0},
		{"another protocol", sayThen("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", hang), "response_invalid", "no final HTTP status", 101},
		{"a status of its own", say("HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n"), "response_invalid", "no final HTTP status", 999},
		{"garbage", say("\x00\xff\x16\x03\x01 garbage\r\n\r\n"), "response_invalid", "not HTTP", 0},
		{"endless garbage", func(c net.Conn) { readRequest(c); repeat(c, "\x00\xff\x13") }, "response_invalid", "", 0},
		{"another protocol's greeting", say("SSH-2.0-OpenSSH_9.6\r\n"), "response_invalid", "not HTTP", 0},
		{"HTTP/0.9", say("<html>"), "response_invalid", "", 0},
		{"two lengths", say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "response_invalid", "not HTTP", 0},
		{"a negative length", say("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "response_invalid", "not HTTP", 0},
		{"a bad chunk", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "response_invalid", "not HTTP", 200},
		{"a compressed bomb", say(bomb()), "response_invalid", "Content-Encoding", 200},
		{"nothing, then closed", func(c net.Conn) { readRequest(c) }, "response_invalid", closed, 0},
		{"closed before the request", func(net.Conn) {}, "response_invalid", closed, 0},
		{"reset", func(c net.Conn) { readRequest(c); _ = c.(*net.TCPConn).SetLinger(0) }, "response_invalid", closed, 0},
		{"closed in the status", say("HTTP/1.1 20"), "response_invalid", "", 0},
		{"closed after the status", say("HTTP/1.1 200 OK\r\n"), "response_invalid", closed, 0},
		{"closed in a header", say("HTTP/1.1 200 OK\r\nX-A: a"), "response_invalid", closed, 0},
		{"closed in the body", say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), "response_invalid", closed, 200},
		{"closed before the body", say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"), "response_invalid", closed, 200},
		{"closed in a long body", say("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + strings.Repeat("a", 5000)), "response_invalid", closed, 200},
		{"closed in a chunk", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\naa"), "response_invalid", closed, 200},
		{"closed after a chunk", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\naaaa\r\n"), "response_invalid", closed, 200},
		{"closed after the last chunk's size", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"), "response_invalid", closed, 200},
		{"silence", hang, "timeout", "No answer came", 0},
		{"silence after the request", func(c net.Conn) { readRequest(c); hang(c) }, "timeout", "No answer came", 0},
		{"silence in the headers", sayThen("HTTP/1.1 200 OK\r\n", hang), "timeout", "did not end", 0},
		{"silence in the body", sayThen("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", hang), "timeout", "did not end", 200},
		{"dripping headers", sayThen("HTTP/1.1 200 OK\r\n", func(c net.Conn) { drip(c, "X-A: a\r\n") }), "timeout", "did not end", 0},
		{"a dripping body", sayThen("HTTP/1.1 200 OK\r\n\r\n", func(c net.Conn) { drip(c, "a") }), "timeout", "did not end", 200},
		{"dripping 1xx", func(c net.Conn) { readRequest(c); drip(c, "HTTP/1.1 102 Processing\r\n\r\n") }, "timeout", "did not end", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := rawReceiver(t, c.answer)
			before, after := tried(t, delivery.SenderConfig{Development: true}, url, c.code, c.says, c.status)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
		})
	}
}

// tried sends to a receiver that misbehaves, and compares what becomes of the
// attempt; code "" is any. It returns the memory before and after. A machine that
// stalls may spend a brief time-out on another phase than the one that hangs:
// then there are longer ones.
func tried(t *testing.T, c delivery.SenderConfig, url, code, says string, status int) (before, after runtime.MemStats) {
	t.Helper()
	c.Timeouts = awaited(code)
	for longer := []time.Duration{3 * time.Second, 9 * time.Second}; ; longer = longer[1:] {
		s := newSender(t, c)
		runtime.ReadMemStats(&before)
		start := time.Now()
		sent := s.Send(t.Context(), message(url))
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if sent.Succeeded() || sent.Error == nil {
			t.Fatalf("%+v", sent)
		}
		t.Logf("%s: %s (%s, %d KiB)", sent.Error.Code, sent.Error.Message, took, (after.TotalAlloc-before.TotalAlloc)>>10)
		have := 0
		if sent.Response != nil {
			have = sent.Response.StatusCode
			if len(sent.Response.Body) > 4<<10 {
				t.Errorf("%d bytes are kept", len(sent.Response.Body))
			}
		}
		said := (code == "" || sent.Error.Code == code) && strings.Contains(sent.Error.Message, says)
		if code == "timeout" && sent.Error.Code == code && (!said || have != status) && len(longer) > 0 {
			c.Timeouts = delivery.Timeouts{Connect: longer[0], TLS: longer[0], All: longer[0]}
			s.Close() // the receiver has one connection at a time
			continue
		}
		if !said || sent.TimedOut != (sent.Error.Code == "timeout") {
			t.Errorf("%+v, timed out %t; want %s, %q", *sent.Error, sent.TimedOut, code, says)
		}
		if have != status {
			t.Errorf("status %d, want %d", have, status)
		}
		if code == "timeout" && took > c.Timeouts.All+10*time.Second {
			t.Errorf("it took %s", took)
		}
		return before, after
	}
}
