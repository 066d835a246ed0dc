//go:build js && wasm

package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
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

// serve answers a request of the host: {method, url, headers, body, respond, aborted}.
func (e *edge) serve(_ js.Value, args []js.Value) any {
	go func() {
		e.loops.wake(e.service.Run)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		aborted := js.FuncOf(func(js.Value, []js.Value) any { cancel(); return nil })
		defer aborted.Release()
		args[0].Call("aborted", aborted)
		w := &responseWriter{request: args[0], header: http.Header{}}
		defer args[0].Call("ended")
		defer w.close()
		defer func() {
			if p := recover(); p != nil { // as a server that ends the connection
				w.broken = true
			}
		}()
		r, err := requestOf(ctx, args[0])
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		e.service.Server.Handler().ServeHTTP(w, r)
	}()
	return nil
}

func requestOf(ctx context.Context, from js.Value) (*http.Request, error) {
	u, err := url.Parse(from.Get("url").String())
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: from.Get("method").String(), URL: u, Host: u.Host, RequestURI: u.RequestURI(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
	}
	headers := from.Get("headers")
	for i := 0; i < headers.Length(); i += 2 {
		r.Header.Add(headers.Index(i).String(), headers.Index(i+1).String())
	}
	if body := from.Get("body"); body.Truthy() {
		r.Body, r.ContentLength = io.NopCloser(&stream{ctx: ctx, reader: body}), -1
	}
	return r.WithContext(ctx), nil
}

// responseWriter gives the answer to the host as it is written: nothing is whole in
// memory.
type responseWriter struct {
	request js.Value
	header  http.Header
	writer  js.Value // of the host's stream, once the head has been sent
	begun   bool
	broken  bool
}

func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader sends status and headers.
func (w *responseWriter) WriteHeader(status int) {
	if w.begun || status < 200 {
		return
	}
	w.begun = true
	headers := make([]any, 0, 2*len(w.header))
	for name, values := range w.header {
		for _, value := range values {
			headers = append(headers, name, value)
		}
	}
	w.writer = w.request.Call("respond", status, headers)
}

// Write sends a piece of the body, and waits until there is room for the next. An
// error says that the client has gone.
func (w *responseWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.writer.Truthy() { // an answer without a body
		return len(b), nil
	}
	if _, err := await(context.Background(), w.writer.Call("write", bytesOf(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (w *responseWriter) close() {
	w.WriteHeader(http.StatusOK)
	if !w.writer.Truthy() {
		return
	}
	if w.broken {
		w.writer.Call("abort", "the answer ends early")
	} else {
		_, _ = await(context.Background(), w.writer.Call("close")) // the client may have gone
	}
}
