package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"tollgate"
)

// world is an app of its own with an environment and buffers.
func world(env map[string]string) (a *app, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &app{
		program: "tollgate", env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, clock: time.Now, entropy: zeros{},
	}, stdout, stderr
}

// zeros is entropy that is none.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// runInside is the program with an environment and an input of its own.
func runInside(ctx context.Context, env map[string]string, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{
		program: "tollgate", stdin: stdin, stdout: &out, stderr: &errs, clock: time.Now, entropy: zeroes{},
		env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	}
	code = a.run(ctx, rootCommand(a), args)
	return code, out.String(), errs.String()
}

func problemAnswer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"code":"` + code + `","message":"No."}`))
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// handmade is a module whose window is at address 0, with functions of one i32
// to another, locals in front; the first, number 1, is quote.
func handmade(functions ...[]byte) []byte {
	blob := func(to, b []byte) []byte { return append(binary.AppendUvarint(to, uint64(len(b))), b...) }
	bodies := blob([]byte{byte(1 + len(functions))}, []byte{0, 0x41, 0, 0x0b})
	types := []byte{byte(1 + len(functions)), 0}
	for _, f := range functions {
		bodies, types = blob(bodies, f), append(types, 1)
	}
	section := func(to []byte, id byte, b []byte) []byte { return blob(append(to, id), b) }
	m := section([]byte("\x00asm\x01\x00\x00\x00"), 1, []byte{2, 0x60, 0, 1, 0x7f, 0x60, 1, 0x7f, 1, 0x7f})
	m = section(m, 3, types)
	m = section(m, 5, []byte{1, 0, 1})
	exports := append(blob([]byte{3}, []byte("memory")), 2, 0)
	exports = append(blob(exports, []byte("tg_buf")), 0, 0)
	m = section(m, 7, append(blob(exports, []byte("quote")), 0, 1))
	m = section(m, 10, bodies)
	return section(m, 0, append(blob(nil, []byte("tollgate.manifest")), `{"abi":"tollgate:rule/1","label":"Fee"}`...))
}

func shippedModule(t *testing.T, c tollgate.Citation) []byte {
	t.Helper()
	r, err := shipped(c)
	if err != nil {
		t.Fatal(err)
	}
	return r.module
}

// oneLine is the code of quote, with the amount in local 1, for a line of the
// i64 that fee leaves.
func oneLine(fee ...byte) []byte {
	code := []byte{1, 1, 0x7f, 0x41, 0, 0x28, 2, 8, 0x21, 1}
	word := func(at byte, value ...byte) {
		code = append(append(append(code, 0x41, 0), value...), 0x37, 3, at)
	}
	word(0, 0x42, 0x80, 0x80, 0x80, 0x80, 0x10) // 1 << 32: status 0, one line
	word(8, 0x42, 0)
	word(16, fee...)
	word(24, 0x42, 0)
	word(32, 0x42, 0)
	return append(code, 0x41, 40, 0x0b)
}

// forgetful is a service that reads a request and hangs up, or answers.
type forgetful struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request, n int) bool // false: hang up
	keys   []string
	bodies []string
	paths  []string
}

func newForgetful(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int) bool) *forgetful {
	f := &forgetful{answer: answer}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.paths = append(f.paths, r.Method+" "+r.URL.Path)
		f.keys, f.bodies = append(f.keys, r.Header.Get("Idempotency-Key")), append(f.bodies, string(body))
		n := len(f.keys)
		f.mu.Unlock()
		if !f.answer(w, r, n) {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *forgetful) seen() (keys, bodies []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys, f.bodies
}

func refuse(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"code":%q,"message":"No."}`, code)
	return true
}

func payer(t *testing.T, url, home string) (a *app, stdout, stderr *bytes.Buffer) {
	t.Helper()
	a, stdout, stderr = world(map[string]string{"TOLLGATE_URL": url, "TOLLGATE_TOKEN": "e30.eyJvcmciOiJvcmdfMSJ9.x", "HOME": home})
	a.entropy = rand.Reader
	return a, stdout, stderr
}

// files are the requests that are kept below a home.
func files(t *testing.T, home string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			info, err := entry.Info()
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
			}
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
