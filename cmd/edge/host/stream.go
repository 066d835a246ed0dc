//go:build js && wasm

package host

import (
	"context"
	"errors"
	"io"
	"syscall/js"
)

// Await waits for a promise of the host.
func Await(ctx context.Context, promise js.Value) (js.Value, error) {
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

// BytesOf copies bytes to the host.
func BytesOf(b []byte) js.Value {
	array := js.Global().Get("Uint8Array").New(len(b))
	js.CopyBytesToJS(array, b)
	return array
}

// Stream reads what the host's reader has.
type Stream struct {
	ctx    context.Context
	reader js.Value
	rest   []byte
}

// NewStream makes one of a reader of the host, until ctx ends.
func NewStream(ctx context.Context, reader js.Value) *Stream {
	return &Stream{ctx: ctx, reader: reader}
}

// Read waits for what the reader has.
func (s *Stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		chunk, err := Await(s.ctx, s.reader.Call("read"))
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

// Ignored takes what a promise becomes.
var Ignored = js.FuncOf(func(js.Value, []js.Value) any { return nil })
