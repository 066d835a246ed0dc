//go:build js && wasm

package main

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall/js"
	"time"

	"tollgate/cmd/edge/host"
)

// socket is a connection that the host has dialled. What arrives is read at once, so
// that its end is known before anybody writes to it.
type socket struct {
	given  js.Value
	writer js.Value
	cancel context.CancelFunc
	pieces chan []byte // closed at the end

	mu       sync.Mutex
	rest     []byte
	deadline time.Time
	gone     bool
}

// pieces that wait to be read before the host is asked for no more.
const piecesAhead = 16

// dial waits until a socket that the host has given is open.
func dial(ctx context.Context, given js.Value) (net.Conn, error) {
	if _, err := host.Await(ctx, given.Get("opened")); err != nil {
		given.Call("close")
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	reading, cancel := context.WithCancel(context.Background())
	s := &socket{given: given, writer: given.Get("writable").Call("getWriter"), cancel: cancel, pieces: make(chan []byte, piecesAhead)}
	go s.receive(reading, host.NewStream(reading, given.Get("readable").Call("getReader")))
	return s, nil
}

func (s *socket) receive(ctx context.Context, from *host.Stream) {
	defer close(s.pieces)
	for {
		b := make([]byte, 16<<10)
		n, err := from.Read(b)
		if err != nil {
			s.mu.Lock()
			s.gone = true
			s.mu.Unlock()
			return
		}
		select {
		case s.pieces <- b[:n]:
		case <-ctx.Done():
			return
		}
	}
}

// Read waits for what arrives, until the deadline.
func (s *socket) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		s.mu.Lock()
		deadline := s.deadline
		s.mu.Unlock()
		var late <-chan time.Time
		if !deadline.IsZero() {
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case piece, ok := <-s.pieces:
			if !ok {
				return 0, io.EOF
			}
			s.rest = piece
		case <-late:
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Write hands bytes to the host, which keeps them in order. That they cannot be sent
// is what the reader learns.
func (s *socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return 0, io.EOF
	}
	s.writer.Call("write", host.BytesOf(b)).Call("catch", host.Ignored)
	return len(b), nil
}

// Close ends the connection.
func (s *socket) Close() error {
	s.cancel()
	s.given.Call("close").Call("catch", host.Ignored)
	return nil
}

// SetDeadline is for what is read: what is written waits for nobody.
func (s *socket) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	return nil
}

// SetReadDeadline is SetDeadline.
func (s *socket) SetReadDeadline(t time.Time) error { return s.SetDeadline(t) }

// SetWriteDeadline does nothing.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr is not known.
func (s *socket) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr is not known.
func (s *socket) RemoteAddr() net.Addr { return &net.TCPAddr{} }
