package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelf/s3"
	"tollgate/rediskv/packs/shelf/s3/s3test"
)

// first has a fault befall the first requests.
func first(n int64, f s3test.Fault) s3test.Fault {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		if count.Add(1) <= n {
			f(w, r, right)
			return
		}
		right.ServeHTTP(w, r)
	}
}

// only has a fault befall requests with a method.
func only(method string, f s3test.Fault) s3test.Fault {
	return func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		if r.Method == method {
			f(w, r, right)
			return
		}
		right.ServeHTTP(w, r)
	}
}

func broken(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	s3test.Refuse(w, http.StatusInternalServerError, "InternalError")
}

// cut ends the connection in the middle of the body of an answer, or of a request.
func cut(w http.ResponseWriter, r *http.Request, right http.Handler) {
	if r.Method == http.MethodPut {
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
	} else {
		half(w, r, right)
	}
	panic(http.ErrAbortHandler)
}

// half sends half of an answer.
func half(w http.ResponseWriter, r *http.Request, right http.Handler) {
	answer := httptest.NewRecorder()
	right.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
}

// lost does what is asked, and does not say so.
func lost(_ http.ResponseWriter, r *http.Request, right http.Handler) {
	right.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// steps are what is done with a shelf that has "a", of which "o" is open.
func steps(b *s3.Bucket, o shelf.Object, text string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Read": func(ctx context.Context) error {
			o, err := b.Read(ctx, "a")
			if err == nil && o.Size() != int64(len(text)) {
				err = fmt.Errorf("it has %d bytes", o.Size())
			}
			return err
		},
		"Text": func(ctx context.Context) error {
			is, err := b.Text(ctx, "a")
			if err == nil && string(is) != text {
				err = errors.New("it is another text")
			}
			return err
		},
		"ReadAt": func(ctx context.Context) error {
			p := make([]byte, 100_000)
			err := o.ReadAt(ctx, p, 10)
			if err == nil && string(p) != text[10:][:len(p)] {
				err = errors.New("it is another range")
			}
			return err
		},
		"List": func(ctx context.Context) error {
			all, err := b.List(ctx, "")
			if err == nil && len(all) == 0 {
				err = errors.New("there is nothing")
			}
			return err
		},
		"Put again": func(ctx context.Context) error { return b.Put(ctx, "a", int64(len(text)), strings.NewReader(text)) },
		"Put":       func(ctx context.Context) error { return b.Put(ctx, "b/c", int64(len(text)), strings.NewReader(text)) },
		"Remove":    func(ctx context.Context) error { return b.Remove(ctx, "b/c") },
	}
}

// prepared is a shelf for steps.
func prepared(t *testing.T) (server *s3test.Server, b *s3.Bucket, text string, all map[string]func(context.Context) error) {
	t.Helper()
	b, server = empty(t)
	text = long(600_000)
	put(t, b, "a", text)
	o, err := b.Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	server.Requests()
	return server, b, text, steps(b, o, text)
}

// What fails once or twice is done again; what always fails is an error after three attempts.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]s3test.Fault{"an error": broken, "a cut": cut, "too much": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		s3test.Refuse(w, http.StatusTooManyRequests, "SlowDown")
	}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _, _, all := prepared(t)
			for what, do := range all {
				if what == "Remove" && name == "a cut" { // its answer has no body
					continue
				}
				server.Fail(first(2, fault))
				server.Requests()
				if err := do(t.Context()); err != nil {
					t.Errorf("%s fails twice: %v", what, err)
				}
				if n := len(server.Requests()); n < 3 || n > 4 {
					t.Errorf("%s fails twice: there were %d requests", what, n)
				}
				server.Fail(fault)
				err := do(t.Context())
				if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%s always fails: %v", what, err)
				}
				if n := len(server.Requests()); n != 3 {
					t.Errorf("%s always fails: there were %d requests", what, n)
				}
			}
		})
	}
}

// Whatever becomes of the request that puts an object, it is whole or not there.
func TestPutCut(t *testing.T) {
	t.Parallel()
	server, b, text, all := prepared(t)
	server.Fail(only(http.MethodPut, cut))
	if err := all["Put"](t.Context()); err == nil {
		t.Error("half of it is enough")
	}
	if keys := server.Keys(t); !slices.Equal(keys, []string{"of/archive/a"}) {
		t.Errorf("there is %q", keys)
	}
	server.Fail(only(http.MethodPut, first(1, lost)))
	if err := all["Put"](t.Context()); err != nil {
		t.Errorf("an answer is lost: %v", err)
	}
	server.Fail(nil)
	if is, err := b.Text(t.Context(), "b/c"); err != nil || string(is) != text {
		t.Errorf("it has %d bytes, %v", len(is), err)
	}
	server.Fail(only(http.MethodPut, first(1, lost)))
	if err := b.Put(t.Context(), "d", 1, iotest.OneByteReader(strings.NewReader("x"))); err != nil {
		t.Errorf("an answer is lost, of what is in memory: %v", err)
	}
}

// A content that is another one when it is sent is refused by the server.
func TestPutAnother(t *testing.T) {
	t.Parallel()
	b, server := empty(t)
	text := []byte(long(100_000))
	server.Fail(only(http.MethodGet, func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		text[50_000] ^= 1 // the digest has been computed
		right.ServeHTTP(w, r)
	}))
	if err := b.Put(t.Context(), "a", int64(len(text)), bytes.NewReader(text)); err == nil || !strings.Contains(err.Error(), "BadDigest") {
		t.Errorf("it says %v", err)
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("there is %q", keys)
	}
}

// A file, of which somebody has read a part, is put from there on, and stays open.
func TestPutFrom(t *testing.T) {
	t.Parallel()
	b, server := empty(t)
	server.Fail(only(http.MethodPut, first(1, broken)))
	r := strings.NewReader("some text")
	if _, err := r.Seek(5, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "a", 4, r); err != nil {
		t.Fatal(err)
	}
	if text, err := b.Text(t.Context(), "a"); string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// A server may not know If-None-Match. It is looked first, and nothing is replaced.
func TestNoConditions(t *testing.T) {
	t.Parallel()
	ignores := func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		r.Header.Del("If-None-Match")
		right.ServeHTTP(w, r)
	}
	refuses := func(status int, code, header string) s3test.Fault {
		return only(http.MethodPut, func(w http.ResponseWriter, r *http.Request, right http.Handler) {
			if r.Header.Get(header) != "" {
				s3test.Refuse(w, status, code)
				return
			}
			right.ServeHTTP(w, r)
		})
	}
	for name, c := range map[string]struct {
		fault  s3test.Fault
		before []string // the requests of the first
	}{
		"ignores":          {ignores, []string{"GET", "PUT"}},
		"refuses":          {refuses(http.StatusNotImplemented, "NotImplemented", "If-None-Match"), []string{"GET", "PUT", "PUT"}},
		"knows no digests": {refuses(http.StatusBadRequest, "InvalidArgument", "x-amz-checksum-sha256"), []string{"GET", "PUT", "PUT"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, server := empty(t)
			server.Fail(c.fault)
			put(t, b, "a", "text")
			expect(t, "the first", server, c.before...)
			put(t, b, "b", "text")
			expect(t, "the next", server, "GET", "PUT")
			put(t, b, "a", "text")
			expect(t, "the same", server, "GET")
			if err := b.Put(t.Context(), "a", 4, strings.NewReader("else")); !errors.Is(err, fs.ErrExist) {
				t.Errorf("another: %v", err)
			}
			if text, err := b.Text(t.Context(), "a"); string(text) != "text" {
				t.Errorf("there is %q, %v", text, err)
			}
		})
	}
}

// Between the look and the request somebody else puts the object.
func TestPutRace(t *testing.T) {
	t.Parallel()
	for _, there := range []string{"text", "else"} {
		b, server := empty(t)
		server.Fail(only(http.MethodPut, func(w http.ResponseWriter, r *http.Request, right http.Handler) {
			server.Lay(t, "of/archive/a", there)
			right.ServeHTTP(w, r)
		}))
		err := b.Put(t.Context(), "a", 4, strings.NewReader("text"))
		if there == "text" && err != nil || there == "else" && !errors.Is(err, fs.ErrExist) {
			t.Errorf("there is %s: %v", there, err)
		}
		expect(t, there, server, "GET", "PUT", "GET")
	}
}

// A server that hangs holds nobody longer than the context.
func TestSlow(t *testing.T) {
	t.Parallel()
	server, _, _, all := prepared(t)
	hangs := make(chan struct{})
	defer close(hangs)
	server.Fail(func(http.ResponseWriter, *http.Request, http.Handler) {
		<-hangs
		panic(http.ErrAbortHandler)
	})
	for what, do := range all {
		ctx, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
			t.Errorf("%s says %v after %s", what, err, time.Since(began))
		}
		end()
	}
}

// A server that takes requests and never answers is given up, also by who waits for ever.
func TestSilent(t *testing.T) {
	t.Parallel()
	// Longer than a busy machine takes to get a request across.
	const patience = time.Second
	text := long(10_000)
	at := func(t *testing.T, name string) (*s3test.Server, *s3.Bucket) {
		server, silent := s3test.New(t), make(chan struct{})
		t.Cleanup(func() { close(silent) }) // before the server ends
		b, err := s3.Open(server.At(""), s3.Options{Credentials: &s3.Credentials{AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey}, Patience: patience})
		if err != nil {
			t.Fatal(err)
		}
		server.Lay(t, "a", text)
		server.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
			defer func() { <-silent }()
			if name == "at once" {
				<-silent
				panic(http.ErrAbortHandler)
			}
			half(w, r, right)
		})
		return server, b
	}
	for _, name := range []string{"at once", "in a body"} {
		_, b := at(t, name)
		for what := range steps(b, nil, text) {
			if what == "ReadAt" || name == "in a body" && what != "Put again" { // a larger body may take longer
				continue
			}
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				server, b := at(t, name)
				began := time.Now()
				if err := steps(b, nil, text)[what](t.Context()); err == nil || errors.Is(err, fs.ErrNotExist) || time.Since(began) > 20*time.Second {
					t.Errorf("it says %v after %s", err, time.Since(began))
				}
				n := len(server.Requests())
				for until := time.Now().Add(10 * time.Second); n < 3 && time.Now().Before(until); n += len(server.Requests()) {
					time.Sleep(time.Millisecond) // one whose client has gone may be seen late
				}
				if n != 3 {
					t.Errorf("there were %d requests", n)
				}
			})
		}
	}
}

// Some servers answer a range with all of an object, and some refuse one that is longer than
// it. No server's answer is believed that does not fit.
func TestOtherAnswers(t *testing.T) {
	t.Parallel()
	b, server := empty(t)
	small, large := long(1000), long(600_000)
	put(t, b, "small", small)
	put(t, b, "large", large)
	put(t, b, "none", "")
	header := func(name, value string) s3test.Fault {
		return func(w http.ResponseWriter, r *http.Request, right http.Handler) {
			answer := httptest.NewRecorder()
			right.ServeHTTP(answer, r)
			for name, values := range answer.Header() {
				w.Header()[name] = values
			}
			w.Header().Set(name, value)
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		}
	}
	whole := func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		if strings.Contains(r.Header.Get("Range"), "=-") {
			r.Header.Del("Range")
		}
		right.ServeHTTP(w, r)
	}
	refuses := func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		if strings.Contains(r.Header.Get("Range"), "=-") {
			s3test.Refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		right.ServeHTTP(w, r)
	}
	for what, fault := range map[string]s3test.Fault{"right": nil, "whole": whole, "refuses": refuses} {
		server.Fail(fault)
		for name, text := range map[string]string{"small": small, "large": large, "none": ""} {
			o, err := b.Read(t.Context(), name)
			if err != nil {
				t.Errorf("%s, %s: %v", what, name, err)
				continue
			}
			p := make([]byte, len(text))
			server.Requests()
			if err := o.ReadAt(t.Context(), p, 0); err != nil || string(p) != text || o.Size() != int64(len(text)) {
				t.Errorf("%s, %s: %d bytes, %v", what, name, o.Size(), err)
			}
			if n := len(server.Requests()); n != len(text)/len(large) { // all of a large one is not kept
				t.Errorf("%s, %s: %d requests", what, name, n)
			}
		}
	}
	server.Fail(nil)
	o, err := b.Read(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"bytes 0-99/600000", "bytes 100-199/600001", "bytes 100-200/600000", "bytes 99-198/600000", "bytes -1-98/600000", "bytes 100-199/*", "none"} {
		server.Fail(header("Content-Range", said))
		server.Requests()
		if err := o.ReadAt(t.Context(), make([]byte, 100), 100); err == nil || !strings.Contains(err.Error(), "as S3 does") {
			t.Errorf("%s: %v", said, err)
		}
		if n := len(server.Requests()); n != 1 {
			t.Errorf("%s: there were %d requests", said, n)
		}
	}
	server.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		r.Header.Set("Range", "bytes=99-199")
		right.ServeHTTP(w, r)
	})
	if err := o.ReadAt(t.Context(), make([]byte, 100), 100); err == nil || !strings.Contains(err.Error(), "as S3 does") {
		t.Errorf("from a byte before: %v", err)
	}
	for name, value := range map[string]string{"ETag": "", "Content-Range": "bytes 0-99/600000"} {
		server.Fail(header(name, value))
		if _, err := b.Read(t.Context(), "large"); err == nil || !strings.Contains(err.Error(), "as S3 does") {
			t.Errorf("%s %s: %v", name, value, err)
		}
	}
}
