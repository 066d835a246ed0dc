package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// flaky serves one export; each download goes through what is next in cuts: so
// many bytes and then the end of the connection, or an answer of its own.
type flaky struct {
	file   []byte
	sum    string // that the export names
	cuts   []func(w http.ResponseWriter, serve func(http.ResponseWriter))
	ranges []string
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(b []byte) (int, error) {
	if len(b) < w.left {
		w.left -= len(b)
		return w.ResponseWriter.Write(b)
	}
	_, _ = w.ResponseWriter.Write(b[:w.left])
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

func after(bytes int) func(http.ResponseWriter, func(http.ResponseWriter)) {
	return func(w http.ResponseWriter, serve func(http.ResponseWriter)) { serve(&cutWriter{w, bytes}) }
}

func answers(status int) func(http.ResponseWriter, func(http.ResponseWriter)) {
	return func(w http.ResponseWriter, _ func(http.ResponseWriter)) {
		http.Error(w, `{"code":"store_unavailable"}`, status)
	}
}

// empty is a whole answer of no bytes.
func empty(http.ResponseWriter, func(http.ResponseWriter)) {}

func (f *flaky) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !strings.HasSuffix(req.URL.Path, "/file") {
		fmt.Fprintf(w, `{"id":"exp_1","dataset":"payments","format":"csv","status":"succeeded","progress":{"rows_done":1,"rows_total":1},"result":{"rows":1,"bytes":%d,"sha256":"%s","expires_at":"2026-12-01T00:00:00.000Z"}}`, len(f.file), f.sum)
		return
	}
	f.ranges = append(f.ranges, req.Header.Get("Range"))
	serve := func(w http.ResponseWriter) {
		w.Header().Set("ETag", `"`+f.sum+`"`)
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(f.file))
	}
	if len(f.cuts) == 0 {
		serve(w)
		return
	}
	cut := f.cuts[0]
	f.cuts = f.cuts[1:]
	cut(w, serve)
}

// A download goes on where it broke off, and a file is put in place only when
// it is whole and right.
func TestFetchExport(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	right := sha256.Sum256(file)
	type cuts = []func(http.ResponseWriter, func(http.ResponseWriter))
	for name, c := range map[string]struct {
		cuts   cuts
		sum    string // empty: the right one
		code   int
		ranges []string
		says   string
	}{
		"whole":         {nil, "", cli.ExitOK, []string{""}, ""},
		"broken twice":  {cuts{after(100), after(30_000)}, "", cli.ExitOK, []string{"", "bytes=100-", "bytes=30100-"}, "going on"},
		"unavailable":   {cuts{after(5000), answers(503), answers(500)}, "", cli.ExitOK, []string{"", "bytes=5000-", "bytes=5000-", "bytes=5000-"}, "going on"},
		"never":         {cuts{answers(503), answers(503), answers(503), answers(503), answers(503)}, "", cli.ExitUnavailable, []string{"", "", "", "", ""}, "broke off 5 times at byte 0"},
		"nothing comes": {cuts{empty, empty, empty, empty, empty}, "", cli.ExitUnavailable, []string{"", "", "", "", ""}, "broke off 5 times at byte 0: unexpected EOF"},
		"gone":          {cuts{after(5000), answers(410)}, "", cli.ExitRefused, []string{"", "bytes=5000-"}, ""},
		"another file":  {nil, strings.Repeat("0", 64), cli.ExitRefused, []string{""}, "what arrived is not the file"},
		"starts anew":   {cuts{after(100), func(w http.ResponseWriter, _ func(http.ResponseWriter)) { _, _ = w.Write(file) }}, "", cli.ExitOK, []string{"", "bytes=100-", "bytes=100-"}, "going on"},
		"wrong part": {cuts{after(100), func(w http.ResponseWriter, _ func(http.ResponseWriter)) {
			w.Header().Set("Content-Range", "bytes 7-9/80000")
			w.WriteHeader(206)
			_, _ = w.Write(file[7:10])
		}}, "", cli.ExitOK, []string{"", "bytes=100-", "bytes=100-"}, ""},
		"more than is": {cuts{func(w http.ResponseWriter, _ func(http.ResponseWriter)) {
			_, _ = w.Write(append(bytes.Clone(file), 'x'))
		}}, "", cli.ExitRefused, []string{""}, "what arrived is not the file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait
			f := &flaky{file: file, sum: c.sum, cuts: c.cuts}
			if f.sum == "" {
				f.sum = hex.EncodeToString(right[:])
			}
			server := httptest.NewServer(f)
			defer server.Close()
			dir := t.TempDir()
			target := filepath.Join(dir, "rows.csv")
			if err := os.WriteFile(target, []byte("before"), 0o600); err != nil {
				t.Fatal(err)
			}
			a, _, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "t"})
			if code := a.Run(context.Background(), clitest.Root(a, Commands(a)...), []string{"export", "--id", "exp_1", "-o", target}); code != c.code || !strings.Contains(stderr.String(), c.says) {
				t.Errorf("exit code %d, want %d: %s", code, c.code, stderr)
			}
			want := file
			if c.code != cli.ExitOK {
				want = []byte("before")
			}
			if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the file has %d bytes, want %d: %v", len(got), len(want), err)
			}
			if !slices.Equal(f.ranges, c.ranges) {
				t.Errorf("asked for %q, want %q", f.ranges, c.ranges)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

// Interrupted before the job's id has come, the command asks for it again, by
// the key, and cancels it.
func TestExportInterruptedAtTheStart(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var keys, canceled []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method == http.MethodDelete:
			canceled = append(canceled, req.URL.Path)
		case len(keys) == 0:
			_, _ = io.Copy(io.Discard, req.Body) // the end of the connection is seen after it
			keys = append(keys, req.Header.Get("Idempotency-Key"))
			interrupt()
			<-req.Context().Done()
			return
		default:
			keys = append(keys, req.Header.Get("Idempotency-Key"))
		}
		_, _ = io.WriteString(w, `{"id":"exp_1","dataset":"payments","format":"csv","status":"pending"}`)
	}))
	defer server.Close()
	a, _, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "t"})
	code := a.Run(ctx, clitest.Root(a, Commands(a)...), []string{"export", "payments", "-o", filepath.Join(t.TempDir(), "x.csv")})
	if code != cli.ExitUnavailable || !strings.Contains(stderr.String(), "interrupted; the job is canceled") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] || !slices.Equal(canceled, []string{"/v1/exports/exp_1"}) {
		t.Errorf("asked with %q, canceled %q", keys, canceled)
	}
}
