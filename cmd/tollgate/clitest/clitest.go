// Package clitest is what tests of commands begin with: the program with a world of
// its own, services that answer badly, and modules of rules. Only tests import it.
package clitest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/wasm"
)

// App is an app of its own with an environment and buffers.
func App(env map[string]string) (a *cli.App, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &cli.App{
		Program: "tollgate", Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Clock: time.Now, Entropy: zeros{},
	}, stdout, stderr
}

// zeros is entropy that is none.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Root is the tree of some commands, with what the program adds to all.
func Root(a *cli.App, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "tollgate", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(commands...)
	a.Complete(root)
	return root
}

// Under is a command that is only the parent of others.
func Under(name string, commands ...*cobra.Command) *cobra.Command {
	parent := &cobra.Command{Use: name}
	parent.AddCommand(commands...)
	return parent
}

// Inside runs one of the commands with an environment and an input of its own.
func Inside(ctx context.Context, commands func(*cli.App) []*cobra.Command, env map[string]string, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	a, out, errs := App(env)
	a.Stdin = stdin
	code = a.Run(ctx, Root(a, commands(a)...), args)
	return code, out.String(), errs.String()
}

// Module is a module whose window is at address 0, with functions of one i32
// to another, locals in front; the first, number 1, is quote.
func Module(functions ...[]byte) []byte {
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

// BuiltinModule is the module of a rule that is part of the program.
func BuiltinModule(t testing.TB, c tollgate.Citation) []byte {
	t.Helper()
	all, err := wasm.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Citation == c {
			return r.Module
		}
	}
	t.Fatalf("no rule %s", c)
	return nil
}

// OneLine is the code of quote, with the amount in local 1, for a line of the
// i64 that fee leaves.
func OneLine(fee ...byte) []byte {
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

// Forgetful is a service that reads a request and hangs up, or answers.
type Forgetful struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request, n int) bool // false: hang up
	keys   []string
	bodies []string
	Paths  []string
}

// NewForgetful starts one that ends with the test.
func NewForgetful(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, n int) bool) *Forgetful {
	f := &Forgetful{answer: answer}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.Paths = append(f.Paths, r.Method+" "+r.URL.Path)
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

// Seen is what was asked so far: the idempotency keys and the bodies.
func (f *Forgetful) Seen() (keys, bodies []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys, f.bodies
}

// Refuse answers as the service refuses.
func Refuse(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"code":%q,"message":"No."}`, code)
	return true
}

// Payer is an app whose client has a token.
func Payer(t testing.TB, url, home string) (a *cli.App, stdout, stderr *bytes.Buffer) {
	t.Helper()
	a, stdout, stderr = App(map[string]string{"TOLLGATE_URL": url, "TOLLGATE_TOKEN": "e30.eyJvcmciOiJvcmdfMSJ9.x", "HOME": home})
	a.Entropy = rand.Reader
	return a, stdout, stderr
}

// Patience bounds every wait of the tests.
const Patience = 30 * time.Second

// Eventually waits until something is so.

// WordsOf are the arguments of a printed command, as a shell reads them.
func WordsOf(t testing.TB, command string) []string {
	t.Helper()
	words, err := exec.Command("sh", "-c", `tollgate() { printf '%s\0' "$@"; }; `+command).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
}

// RepeatsTheSame runs the command that an error has named, and the one that is
// kept in the file, and compares what they send with the first request that had
// a key.
func RepeatsTheSame(t testing.TB, root func(*cli.App) *cobra.Command, service *Forgetful, home, stderr string) {
	t.Helper()
	_, printed, ok := strings.Cut(stderr, "carried out once:\n  ")
	kept := Files(t, home)
	if !ok || len(kept) != 1 {
		t.Fatalf("%s%v", stderr, kept)
	}
	text, err := os.ReadFile(kept[0])
	var file struct {
		Command string `json:"command"`
	}
	if err != nil || json.Unmarshal(bytes.TrimSpace(text), &file) != nil || file.Command != strings.TrimSuffix(printed, "\n") {
		t.Errorf("the file says %s, %v", text, err)
	}
	sent := func() (requests []string) {
		keys, bodies := service.Seen()
		for i, key := range keys {
			if key != "" {
				requests = append(requests, key+" "+service.Paths[i]+" "+bodies[i])
			}
		}
		return requests
	}
	for _, command := range []string{printed, file.Command} {
		before := sent()
		a, _, stderr := Payer(t, service.URL, home)
		a.Clock = func() time.Time { return time.Now().Add(3 * time.Hour) }
		a.Run(t.Context(), root(a), WordsOf(t, command))
		after := sent()
		if len(after) == len(before) {
			t.Errorf("%s: nothing was sent: %s", command, stderr)
		}
		for _, request := range after {
			if request != after[0] {
				t.Errorf("%s\nsent   %s\nbefore %s", command, request, after[0])
			}
		}
	}
}

// Files are the requests that are kept below a home.
func Files(t testing.TB, home string) (all []string) {
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

// Main runs the tests of a package whose product calls its own program: called with
// arguments of a command, the test binary is that program.
func Main(m *testing.M, commands func(*cli.App) []*cobra.Command) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		a := &cli.App{
			Program: "tollgate", Env: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Clock: time.Now, Entropy: rand.Reader,
		}
		os.Exit(a.Run(context.Background(), Root(a, commands(a)...), os.Args[1:]))
	}
	os.Exit(m.Run())
}
