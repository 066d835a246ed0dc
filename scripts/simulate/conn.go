package simulate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// conn is a connection of a process to Redis.
type conn struct {
	wire    *wire
	process *process
	session *session

	// Of the wire, under its lock.
	begun     []byte // of a command whose end has not been written yet
	sent      time.Time
	last      uint64 // number of what was sent last
	answered  time.Time
	waiting   []packet // that Redis does not look at: it holds the answer to one before
	held      *held
	subscribe []string
	resp3     bool

	mu     sync.Mutex
	in     []byte
	closed bool // by the process
	cut    bool // by somebody else
	until  time.Time
	news   chan struct{}
}

var errCut = errors.New("connection reset by peer")

// dialer is a rediskv.Options.Dial.
func (w *wire) dialer(p *process) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return w.dial(p) }
}

// dial connects a process.
func (w *wire) dial(p *process) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.ended || w.trouble.refuses(p) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	c := &conn{wire: w, process: p, session: newSession(), news: make(chan struct{}, 1)}
	w.conns = append(w.conns, c)
	return c, nil
}

// drop forgets a connection. The lock is held.
func (w *wire) drop(c *conn) {
	w.conns = slices.DeleteFunc(w.conns, func(other *conn) bool { return other == c })
}

// Write sends commands.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.closed || c.cut {
		c.mu.Unlock()
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: errCut}
	}
	c.mu.Unlock()
	w := c.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	c.begun = append(c.begun, b...)
	var sent [][]string
	for {
		words, size, err := parseCommand(c.begun)
		if err != nil {
			return 0, err
		}
		if size == 0 {
			break
		}
		c.begun = c.begun[size:]
		if len(sent) == 0 && atOnce[strings.ToUpper(words[0])] {
			c.hear(w.greet(c, words))
			continue
		}
		sent = append(sent, words)
	}
	if len(sent) == 0 {
		return len(b), nil
	}
	p := packet{commands: sent, tie: w.number(c.process, sent)}
	if w.bend.sent != nil {
		p.before = w.bend.sent(w, sent)
	}
	arrival := latest(c.sent, time.Now().Add(w.trouble.travel(w, c.process, p.tie)))
	c.sent, c.last = arrival, p.tie
	w.push(arrival, p.tie, func() { w.arrive(c, p) })
	return len(b), nil
}

// receive is what arrives at the process, when it is not frozen.
func (c *conn) receive(b []byte) {
	if thaw := c.process.thaws(); time.Now().Before(thaw) {
		c.wire.mu.Lock()
		defer c.wire.mu.Unlock()
		c.answered = latest(c.answered, thaw)
		c.wire.push(c.answered, 0, func() { c.receive(b) })
		return
	}
	c.hear(b)
}

func (c *conn) hear(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.cut {
		c.in = append(c.in, b...)
	}
	c.notify()
}

func (c *conn) notify() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// broken says whether nobody hears an answer any more.
func (c *conn) broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed || c.cut
}

// breakOff ends a connection for both sides. The wire's lock is held.
func (c *conn) breakOff() {
	c.wire.drop(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	c.notify()
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		n, ended, until := copy(b, c.in), c.closed, c.until
		c.in = c.in[n:]
		cut := c.cut
		c.mu.Unlock()
		switch {
		case ended:
			return 0, net.ErrClosed
		case n > 0:
			return n, nil
		case cut:
			return 0, io.EOF
		case !until.IsZero() && !time.Now().Before(until):
			return 0, os.ErrDeadlineExceeded
		}
		c.sleep(until)
	}
}

func (c *conn) sleep(until time.Time) {
	if until.IsZero() {
		<-c.news
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-c.news:
	case <-timer.C:
	}
}

func (c *conn) Close() error {
	c.wire.mu.Lock()
	c.wire.drop(c)
	c.wire.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.notify()
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	c.notify()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error  { return c.SetReadDeadline(t) }
func (*conn) SetWriteDeadline(time.Time) error { return nil } // there is always room
func (*conn) LocalAddr() net.Addr              { return address{} }
func (*conn) RemoteAddr() net.Addr             { return address{} }

// SyscallConn is for the Redis client, which looks whether an idle connection has
// ended before it uses it, where that is a socket.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return rawConn{c}, nil }

type rawConn struct{ *conn }

func (r rawConn) Read(func(uintptr) bool) error {
	if r.broken() {
		return errCut
	}
	return nil
}
func (rawConn) Write(func(uintptr) bool) error { return errCut }
func (rawConn) Control(func(uintptr)) error    { return nil }

type address struct{}

func (address) Network() string { return "tcp" }
func (address) String() string  { return "simulated:6379" }

var errProtocol = errors.New("no command in Redis' protocol")

// parseCommand reads a command at the beginning of b, and how long it is; 0 where
// its end is not there yet.
func parseCommand(b []byte) (words []string, size int, err error) {
	line := func(kind byte) (int, bool, error) {
		end := bytes.IndexByte(b[size:], '\n')
		if end < 0 {
			return 0, false, nil
		}
		text := b[size : size+end+1]
		size += end + 1
		if len(text) < 4 || text[0] != kind {
			return 0, false, errProtocol
		}
		n, err := strconv.Atoi(string(text[1 : len(text)-2]))
		return n, true, err
	}
	count, ok, err := line('*')
	if !ok || err != nil {
		return nil, 0, err
	}
	for range count {
		n, ok, err := line('$')
		if !ok || err != nil {
			return nil, 0, err
		}
		if len(b) < size+n+2 {
			return nil, 0, nil
		}
		words = append(words, string(b[size:size+n]))
		size += n + 2
	}
	return words, size, nil
}
