//go:build js && wasm

// Package host is the side of a program in WebAssembly that talks to what runs it:
// an edge runtime or a page, with program.js in between.
package host

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

// keptFree is how many goroutines wait for another request.
const keptFree = 16

// Program answers the requests of its host.
type Program struct {
	Host    js.Value // what the program asks of it
	Handler http.Handler
	Run     func(context.Context) // beside requests, for as long as there are any; nil: nothing

	loops    loops
	underWay sync.Map      // requests' numbers, and what ends them
	answers  chan func()   // for goroutines that are free
	free     chan struct{} // as many as there are, at most keptFree
}

// Host is there until main waits for something.
func Host() js.Value { return js.Global().Get("tollgate") }

// Setting is one of the host, as TOLLGATE_ settings are called everywhere.
func Setting(host js.Value, name string) string {
	return host.Call("setting", "TOLLGATE_"+name).String()
}

// Serve tells the host that requests can come, and never returns. After an error it
// tells the host of that, and the program ends.
func (p *Program) Serve(err error) {
	if err != nil {
		p.Host.Call("failed", err.Error())
		return
	}
	p.answers, p.free = make(chan func()), make(chan struct{}, keptFree)
	p.Host.Call("ready", js.FuncOf(p.serve), js.FuncOf(p.cancel), js.FuncOf(p.sleep))
	select {}
}

// sleep is called when nobody has asked for a while.
func (p *Program) sleep(js.Value, []js.Value) any {
	go p.loops.sleep()
	return nil
}

// serve begins to answer a request of the host: its number, its head (method, URL,
// then names and values of headers, each on a line) with the body behind it, how long
// the head is, and the reader of a body that is not there yet.
func (p *Program) serve(_ js.Value, args []js.Value) any {
	number, b := args[0].Int(), make([]byte, args[1].Length())
	js.CopyBytesToGo(b, args[1])
	size := args[2].Int()
	ctx, cancel := context.WithCancel(context.Background())
	p.underWay.Store(number, cancel)
	r, err := requestOf(ctx, string(b[:size]), b[size:], args[3])
	w := &responseWriter{host: p.Host, number: number, header: http.Header{}}
	p.run(func() {
		defer cancel()
		defer p.underWay.Delete(number)
		defer func() {
			w.end(recover() != nil) // as a server that ends the connection
		}()
		if p.Run != nil {
			p.loops.wake(p.Run)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.Handler.ServeHTTP(w, r)
	})
	return nil
}

// run has a goroutine answer a request: one that has answered others, if one is free,
// as its stack need not grow again (a tenth of a quote's time).
func (p *Program) run(answer func()) {
	select {
	case p.answers <- answer:
	default:
		go func() {
			for {
				answer()
				select {
				case p.free <- struct{}{}:
					answer = <-p.answers
					<-p.free
				default:
					return
				}
			}
		}()
	}
}

// cancel ends a request whose client has gone.
func (p *Program) cancel(_ js.Value, args []js.Value) any {
	if cancel, ok := p.underWay.Load(args[0].Int()); ok {
		cancel.(context.CancelFunc)()
	}
	return nil
}

func requestOf(ctx context.Context, head string, body []byte, rest js.Value) (*http.Request, error) {
	method, head, _ := strings.Cut(head, "\n")
	address, head, _ := strings.Cut(head, "\n")
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: method, URL: u, Host: u.Host, RequestURI: u.RequestURI(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
	}
	for head != "" {
		var name, value string
		name, head, _ = strings.Cut(head, "\n")
		value, head, _ = strings.Cut(head, "\n")
		r.Header.Add(name, value)
	}
	switch {
	case rest.Truthy():
		r.Body, r.ContentLength = io.NopCloser(NewStream(ctx, rest)), -1
	case len(body) > 0:
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r.WithContext(ctx), nil
}

// keptBack is how much of an answer waits for its end, so that a short one is sent
// at once.
const keptBack = 16 << 10

// responseWriter gives an answer to the host: a short one at once, a long one as it
// is written, so that nothing is whole in memory.
type responseWriter struct {
	host   js.Value
	number int
	header http.Header
	status int
	answer []byte   // the head, and of the body what waits
	size   int      // of the head
	writer js.Value // of the host's stream, once a long answer has begun
}

func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader fixes status and headers.
func (w *responseWriter) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	for name, values := range w.header {
		for _, value := range values {
			w.answer = append(append(append(append(w.answer, name...), '\n'), value...), '\n')
		}
	}
	w.size = len(w.answer)
}

// Write takes a piece of the body. Of a long answer it waits until there is room for
// the next; an error says that the client has gone.
func (w *responseWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.answer = append(w.answer, b...); len(w.answer)-w.size <= keptBack {
		return len(b), nil
	}
	if w.writer.IsUndefined() {
		w.writer = w.host.Call("begin", w.number, w.status, BytesOf(w.answer[:w.size]))
	}
	piece := w.answer[w.size:]
	w.answer, w.size = nil, 0
	if _, err := Await(context.Background(), w.writer.Call("write", BytesOf(piece))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// end sends what is left.
func (w *responseWriter) end(broken bool) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.writer.IsUndefined() && broken:
		w.host.Call("broken", w.number)
	case w.writer.IsUndefined():
		w.host.Call("whole", w.number, w.status, BytesOf(w.answer), w.size)
	case broken:
		w.writer.Call("abort", "the answer ends early").Call("catch", Ignored)
	default:
		if len(w.answer) > 0 {
			w.writer.Call("write", BytesOf(w.answer)).Call("catch", Ignored) // the client may have gone
		}
		w.writer.Call("close").Call("catch", Ignored)
	}
}
