package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Far is how a client reaches a Redis that is far away, in a bubble of
// testing/synctest: each connection takes a round trip to be made, and what is
// written to it at once is answered a round trip later. A bubble's clock stands
// while anything computes, so the time that passes there is what the client waits
// for Redis and nothing else: as many round trips as there are, whatever machine
// this is. What is on its way on two connections at once takes the time of one.
//
// It is a rediskv.Options.Dial. Subscriptions and commands that wait in Redis are
// not for it.
type Far time.Duration

// Dial connects to a server that runs outside of the bubble.
func (f Far) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	server, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(f))
	return &farConn{Conn: server, away: time.Duration(f), replies: bufio.NewReader(server), coming: make(chan arriving, 256), closed: make(chan struct{})}, nil
}

// farConn asks the server at once, and hands its replies over when they arrive.
type farConn struct {
	net.Conn
	away    time.Duration
	replies *bufio.Reader

	sending sync.Mutex
	begun   []byte // of a command whose end has not been written yet

	coming chan arriving
	rest   []byte // of what has arrived
	closed chan struct{}
	end    sync.Once
}

// arriving are replies on their way.
type arriving struct {
	at   time.Time
	text []byte
}

func (c *farConn) Write(b []byte) (int, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.begun = append(c.begun, b...)
	r := bytes.NewReader(c.begun)
	buffered := bufio.NewReaderSize(r, 64<<10)
	whole := 0
	var text []byte
	for {
		command, raw, err := readCommand(buffered)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		if strings.HasSuffix(command.Name, "SUBSCRIBE") {
			return 0, fmt.Errorf("%s is not for a Redis that is far away", command.Name)
		}
		whole += len(raw)
		if _, err := c.Conn.Write(raw); err != nil {
			return 0, err
		}
		reply, err := appendReply(nil, c.replies)
		if err != nil {
			return 0, err
		}
		text = append(text, reply...)
	}
	c.begun = bytes.Clone(c.begun[whole:])
	if len(text) > 0 {
		c.coming <- arriving{time.Now().Add(c.away), text}
	}
	return len(b), nil
}

func (c *farConn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		select {
		case next := <-c.coming:
			time.Sleep(time.Until(next.at))
			c.rest = next.text
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *farConn) Close() error {
	c.end.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A bubble has no time-outs: what is on its way arrives.

func (c *farConn) SetDeadline(time.Time) error      { return nil }
func (c *farConn) SetReadDeadline(time.Time) error  { return nil }
func (c *farConn) SetWriteDeadline(time.Time) error { return nil }
