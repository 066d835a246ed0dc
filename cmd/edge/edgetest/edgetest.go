// Package edgetest runs the service on workerd for tests: as it is shipped, or with
// a clock that the test moves. Only tests import it.
package edgetest

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// harness is in front of the Worker; its head says what it does.
//
//go:embed harness.js
var harness []byte

// variable asks for the tests that need what `make edge` writes, and workerd: some, or
// all that they can do.
const variable = "TOLLGATE_TEST_EDGE"

// All is whether a test is to try all that it can, which takes minutes.
func All() bool { return os.Getenv(variable) == "all" }

// NeededForAll skips a test that takes too long for every commit.
func NeededForAll(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("runs in `make edge-test EDGE=all`")
	}
}

// Needed skips a test that nobody asked for.
func Needed(t testing.TB) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skip("runs in `make edge-test`")
	}
}

// Runtime is a workerd that serves.
type Runtime struct {
	URL string
	t   testing.TB
	cmd *exec.Cmd
	log string // its file
}

// Start runs bin/edge with settings, as NAME=value, until the test ends. What it is
// asked before it is ready waits.
func Start(t testing.TB, settings ...string) *Runtime {
	t.Helper()
	return start(t, filepath.Join(root(t), "bin/edge/workerd.capnp"), settings)
}

// StartHarness is Start with the harness in front.
func StartHarness(t testing.TB, settings ...string) *Runtime {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(root(t), "bin/edge"))))
	config := filepath.Join(dir, "workerd.capnp")
	text, err := os.ReadFile(config)
	must(t, err)
	// The first module is the Worker.
	const first = `(name = "worker.js"`
	if !bytes.Contains(text, []byte(first)) {
		t.Fatalf("%s does not begin with worker.js", config)
	}
	text = bytes.Replace(text, []byte(first), []byte(`(name = "harness.js", esModule = embed "harness.js"), `+first), 1)
	must(t, os.WriteFile(config, text, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "harness.js"), harness, 0o600))
	return start(t, config, settings)
}

func start(t testing.TB, config string, settings []string) *Runtime {
	t.Helper()
	// workerd is given the socket and not its number, which another process could take
	// before workerd listens: a test would then talk to that one.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	must(t, err)
	defer socket.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "workerd.log"))
	must(t, err)
	const inherited = "3" // the first of ExtraFiles
	r := &Runtime{URL: "http://" + l.Addr().String(), t: t, cmd: exec.Command(Binary(t), "serve", "--socket-fd=http="+inherited, config), log: log.Name()}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = append(os.Environ(), settings...), log, log
	r.cmd.ExtraFiles = []*os.File{socket}
	must(t, r.cmd.Start())
	log.Close()
	t.Cleanup(func() {
		r.Kill()
		if text := r.Log(); t.Failed() {
			t.Logf("workerd wrote: %s", text[max(0, len(text)-4000):])
		}
	})
	return r
}

// Kill ends workerd at once. Killing one that has ended does nothing.
func (r *Runtime) Kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// Log is what workerd has written.
func (r *Runtime) Log() string {
	text, err := os.ReadFile(r.log)
	must(r.t, err)
	return string(text)
}

// CPU is what the process has used of the processors, to 10 ms; Linux says.
func (r *Runtime) CPU() time.Duration {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	must(r.t, err)
	_, fields, _ := strings.Cut(string(text), ") ") // behind the name, the 3rd is the first
	var user, system int64
	for i, ticks := range map[int]*int64{14: &user, 15: &system} {
		*ticks, err = strconv.ParseInt(strings.Fields(fields)[i-3], 10, 64)
		must(r.t, err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// Memory is how many bytes of memory the process has for itself, with all compiled
// code and without the file of its program; Linux says.
func (r *Runtime) Memory() (bytes int64) {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	must(r.t, err)
	_, line, _ := strings.Cut(string(text), "RssAnon:")
	_, err = fmt.Sscanf(line, "%d kB", &bytes)
	must(r.t, err)
	return bytes << 10
}

// Clock is how time goes in the programs of a Runtime with a harness.
type Clock struct {
	Wall  int64 `json:"wall,omitzero"`  // the time of day, in Unix milliseconds; 0 leaves it
	Ahead int64 `json:"ahead,omitzero"` // what has been jumped over, in milliseconds
	Still bool  `json:"still"`          // it stands between I/O
}

// Inside is what a harness sees of its programs.
type Inside struct {
	Memory   []int64 `json:"memory"`   // of each guest, in bytes
	Requests int     `json:"requests"` // under way
	Resumed  int     `json:"resumed"`  // how often a guest has gone on
}

// Set has the clock go as c says.
func (r *Runtime) Set(c Clock) {
	r.t.Helper()
	body, err := json.Marshal(c)
	must(r.t, err)
	r.ask("POST", bytes.NewReader(body))
}

// Look is how it stands inside.
func (r *Runtime) Look() Inside {
	r.t.Helper()
	return r.ask("GET", nil)
}

func (r *Runtime) ask(method string, body io.Reader) (inside Inside) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.URL+"/harness", body)
	must(r.t, err)
	answer, err := http.DefaultClient.Do(request)
	must(r.t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		r.t.Fatalf("the harness answers %s", answer.Status)
	}
	must(r.t, json.UnmarshalRead(answer.Body, &inside))
	return inside
}

// Binary is workerd: node_modules/.bin has a script, which it would outlive.
func Binary(t testing.TB) string {
	t.Helper()
	binaries, err := filepath.Glob(filepath.Join(root(t), "scripts/edge/node_modules/@cloudflare/workerd-*/bin/workerd"))
	if err != nil || len(binaries) == 0 {
		t.Fatalf("there is no workerd: %v", err)
	}
	return binaries[0]
}

// root is the folder of go.mod, above the one that a test runs in.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	must(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal(fmt.Errorf("there is no go.mod above %s", dir))
	return ""
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
