package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// Local has a handler of this process answer requests, as if they had come from
// outside: with everything that is checked and written down of a request.
type Local struct{ Handler http.Handler }

// RoundTrip answers a request with the bearer token of the request to /mcp that it is
// made for. It ends early when that one does.
func (l Local) RoundTrip(r *http.Request) (response *http.Response, err error) {
	// None of the values: they say which connection the outer request came on, and
	// this one came on none.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	in := r.Clone(ctx)
	in.Proto, in.ProtoMajor, in.ProtoMinor, in.RequestURI = "HTTP/1.1", 1, 1, r.URL.RequestURI()
	if v := visitOf(r.Context()); v != nil {
		if v.visitor != nil {
			in = in.WithContext(v.visitor.Within(ctx))
		}
		in.RemoteAddr, in.Host = v.remote, v.host
		for _, name := range []string{"Authorization", "Traceparent"} {
			if values := v.header[name]; values != nil {
				in.Header[name] = values
			}
		}
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &recorder{header: http.Header{}}
	defer func() {
		if p := recover(); p != nil { // the API has written it into the log
			response, err = nil, fmt.Errorf("the answer broke off: %v", p)
		}
	}()
	l.Handler.ServeHTTP(w, in)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if v := visitOf(r.Context()); v != nil && w.status == http.StatusUnauthorized {
		v.refuse(w)
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: in.Proto, ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// recorder keeps an answer. Handlers of this process write to it from one goroutine.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
