package conform

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// Recorder checks every exchange that passes through it and remembers which
// documented answers were seen. It is safe for concurrent use.
type Recorder struct {
	doc  *Document
	mu   sync.Mutex
	seen map[string]bool
}

// NewRecorder makes a recorder that has seen nothing.
func NewRecorder(d *Document) *Recorder {
	return &Recorder{doc: d, seen: make(map[string]bool)}
}

// Unseen lists the documented answers that never came, such as
// "createPayment 201": either the tests or the document have too few or too
// many of them.
func (r *Recorder) Unseen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var unseen []string
	for _, o := range r.doc.operations {
		for status := range o.responses {
			if answer := fmt.Sprintf("%s %d", o.ID, status); !r.seen[answer] {
				unseen = append(unseen, answer)
			}
		}
	}
	slices.Sort(unseen)
	return unseen
}

// record checks one exchange and reports to the test.
func (r *Recorder) record(tb testing.TB, x Exchange) {
	if err := r.doc.Check(x); err != nil {
		tb.Errorf("not as in the OpenAPI document: %v\n%.2000s", err, x.Body)
		return
	}
	if o := r.doc.operation(x.Request); o != nil && x.Request.Method != http.MethodHead {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[fmt.Sprintf("%s %d", o.ID, x.Status)] = true
	}
}

// Transport checks what a client sends through base (http.DefaultTransport
// when nil) and what it gets.
func (r *Recorder) Transport(tb testing.TB, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{r, tb, base}
}

type transport struct {
	recorder *Recorder
	tb       testing.TB
	base     http.RoundTripper
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	x := Exchange{Request: request}
	if request.Body != nil {
		sent, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		if err := request.Body.Close(); err != nil {
			return nil, err
		}
		x.RequestBody = sent
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(sent))
	}
	answer, err := t.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	x.Body, err = io.ReadAll(answer.Body)
	if err := answer.Body.Close(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(x.Body))
	x.Status, x.Header = answer.StatusCode, answer.Header
	t.recorder.record(t.tb, x)
	return answer, nil
}

// Handler checks what next is asked and what it answers.
func (r *Recorder) Handler(tb testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var sent bytes.Buffer
		inner := request.Clone(request.Context())
		if request.Body != nil {
			inner.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(request.Body, &sent), request.Body}
		}
		a := &answer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(a, inner)
		if a.header == nil {
			a.header = w.Header().Clone()
		}
		r.record(tb, Exchange{request, sent.Bytes(), a.status, a.header, a.body.Bytes()})
	})
}

// answer keeps a copy of what is written through it.
type answer struct {
	http.ResponseWriter
	status int
	header http.Header // as sent; nil before
	body   bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if a.header == nil && status >= 200 {
		a.status, a.header = status, a.Header().Clone()
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.header == nil {
		a.header = a.Header().Clone()
	}
	a.body.Write(b)
	return a.ResponseWriter.Write(b)
}
