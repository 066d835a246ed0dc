//go:build js && wasm

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall/js"
	"time"
)

// await waits for a promise of the host.
func await(ctx context.Context, promise js.Value) (js.Value, error) {
	type settled struct {
		value js.Value
		err   error
	}
	done := make(chan settled, 1)
	kept := js.FuncOf(func(_ js.Value, args []js.Value) any { done <- settled{value: args[0]}; return nil })
	broken := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- settled{err: errors.New(args[0].Call("toString").String())}
		return nil
	})
	promise.Call("then", kept, broken)
	release := func() { kept.Release(); broken.Release() }
	select {
	case s := <-done:
		release()
		return s.value, s.err
	case <-ctx.Done():
		go func() { <-done; release() }() // the host calls one of them yet
		return js.Undefined(), ctx.Err()
	}
}

// bytesOf copies bytes to the host.
func bytesOf(b []byte) js.Value {
	array := js.Global().Get("Uint8Array").New(len(b))
	js.CopyBytesToJS(array, b)
	return array
}

// stream reads what the host's reader has.
type stream struct {
	ctx    context.Context
	reader js.Value
	rest   []byte
}

func (s *stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		chunk, err := await(s.ctx, s.reader.Call("read"))
		if err != nil {
			return 0, err
		}
		if chunk.Get("done").Bool() {
			return 0, io.EOF
		}
		value := chunk.Get("value")
		s.rest = make([]byte, value.Length())
		js.CopyBytesToGo(s.rest, value)
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// socket is a connection that the host has dialled. What arrives is read at once, so
// that its end is known before anybody writes to it.
type socket struct {
	host   js.Value
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

// dial waits until a socket of the host is open.
func dial(ctx context.Context, host js.Value) (net.Conn, error) {
	if _, err := await(ctx, host.Get("opened")); err != nil {
		host.Call("close")
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	reading, cancel := context.WithCancel(context.Background())
	s := &socket{host: host, writer: host.Get("writable").Call("getWriter"), cancel: cancel, pieces: make(chan []byte, piecesAhead)}
	go s.receive(reading, &stream{ctx: reading, reader: host.Get("readable").Call("getReader")})
	return s, nil
}

func (s *socket) receive(ctx context.Context, from *stream) {
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
	s.writer.Call("write", bytesOf(b)).Call("catch", ignored)
	return len(b), nil
}

var ignored = js.FuncOf(func(js.Value, []js.Value) any { return nil })

// Close ends the connection.
func (s *socket) Close() error {
	s.cancel()
	s.host.Call("close").Call("catch", ignored)
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
