//go:build js && wasm

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall/js"
)

// loops are what the service does beside requests, for as long as there are any.
type loops struct {
	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
}

// wake has the loops run.
func (l *loops) wake(run func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	l.stop, l.done = stop, done
	go func() {
		defer close(done)
		run(ctx)
	}()
}

// sleep ends the loops, and says in Redis that this instance counts no more.
func (l *loops) sleep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
		<-l.done
		l.stop = nil
	}
}

// sleep is called when nobody has asked for a while.
func (e *edge) sleep(js.Value, []js.Value) any {
	go e.loops.sleep()
	return nil
}

// serve answers a request of the host: method, URL, headers, body, and the object
// with what is called back (object.js, answer). It returns what cancels the request.
func (e *edge) serve(_ js.Value, args []js.Value) any {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := requestOf(ctx, args[0].String(), args[1].String(), args[2].String(), args[3])
	w := &responseWriter{client: args[4], header: http.Header{}}
	cancelled := js.FuncOf(func(js.Value, []js.Value) any { cancel(); return nil })
	go func() {
		defer cancelled.Release()
		defer cancel()
		defer func() {
			p := recover()
			w.end(p != nil) // as a server that ends the connection
		}()
		e.loops.wake(e.service.Run)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		e.service.Server.Handler().ServeHTTP(w, r)
	}()
	return cancelled
}

// requestOf is a request of the host: headers are names and values, each on a line;
// the body is bytes, or a reader of a stream.
func requestOf(ctx context.Context, method, address, headers string, body js.Value) (*http.Request, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: method, URL: u, Host: u.Host, RequestURI: u.RequestURI(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
	}
	for headers != "" {
		var name, value string
		name, headers, _ = strings.Cut(headers, "\n")
		value, headers, _ = strings.Cut(headers, "\n")
		r.Header.Add(name, value)
	}
	switch {
	case !body.Truthy():
	case body.Get("byteLength").Type() == js.TypeNumber:
		b := make([]byte, body.Length())
		js.CopyBytesToGo(b, body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	default:
		r.Body, r.ContentLength = io.NopCloser(&stream{ctx: ctx, reader: body}), -1
	}
	return r.WithContext(ctx), nil
}

// keptBack is how much of an answer waits for its end, so that a short one is sent
// at once.
const keptBack = 16 << 10

// responseWriter gives an answer to the host: a short one at once, a long one as it
// is written, so that nothing is whole in memory.
type responseWriter struct {
	client js.Value
	header http.Header
	status int
	head   string // of the moment of WriteHeader
	kept   []byte
	writer js.Value // of the host's stream, once a long answer has begun
}

func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader fixes status and headers.
func (w *responseWriter) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	var b strings.Builder
	for name, values := range w.header {
		for _, value := range values {
			b.WriteString(name + "\n" + value + "\n")
		}
	}
	w.head = b.String()
}

// Write takes a piece of the body. Of a long answer it waits until there is room for
// the next; an error says that the client has gone.
func (w *responseWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.kept = append(w.kept, b...); len(w.kept) <= keptBack {
		return len(b), nil
	}
	if w.writer.IsUndefined() {
		w.writer = w.client.Call("begin", w.status, w.head)
	}
	piece := w.kept
	w.kept = nil
	if _, err := await(context.Background(), w.writer.Call("write", bytesOf(piece))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// end sends what is left.
func (w *responseWriter) end(broken bool) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.writer.IsUndefined() && broken:
		w.client.Call("broken")
	case w.writer.IsUndefined():
		w.client.Call("whole", w.status, w.head, bytesOf(w.kept))
	case broken:
		w.writer.Call("abort", "the answer ends early").Call("catch", ignored)
	default:
		if len(w.kept) > 0 {
			w.writer.Call("write", bytesOf(w.kept)).Call("catch", ignored) // the client may have gone
		}
		w.writer.Call("close").Call("catch", ignored)
	}
}
