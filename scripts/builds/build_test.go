// Package builds_test holds this build and earlier ones to what they promise each
// other on one Redis: `make builds`. The earlier ones are built from the
// repository's own history.
package builds_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/rediskv/redistest"
)

// The builds. previous is the last one without checksums, which runs beside this one
// while instances are updated; older is the last one without envelopes and refunds,
// first the first release.
const (
	previousCommit = "4ca9e01"
	olderCommit    = "ed7db52"
	firstCommit    = "6025134"
)

// variable says that these tests are wanted: they build four programs.
const variable = "TOLLGATE_TEST_BUILDS"

// patience bounds every wait.
const patience = 40 * time.Second

// build is a program, and the scopes that it does not know.
type build struct {
	name    string // its version, which its deliveries name
	program string
	lacks   []string
}

var builds struct {
	this, previous, older, first *build
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getenv(variable) == "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "tollgate-builds-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = buildAll(dir)
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
		return m.Run()
	}())
}

func buildAll(dir string) (err error) {
	if builds.this, err = compile(dir, "this", "../.."); err != nil {
		return err
	}
	if builds.previous, err = compileCommit(dir, "previous", previousCommit); err != nil {
		return err
	}
	if builds.older, err = compileCommit(dir, "older", olderCommit, "payments:refund"); err != nil {
		return err
	}
	builds.first, err = compileCommit(dir, "first", firstCommit, "payments:refund", "access:read", "payouts:write")
	return err
}

// compileCommit builds the program of a commit of the repository's history.
func compileCommit(dir, name, commit string, lacks ...string) (*build, error) {
	source := filepath.Join(dir, name+"-source")
	if err := os.Mkdir(source, 0o700); err != nil {
		return nil, err
	}
	archive := source + ".tar"
	if out, err := exec.Command("git", "-C", "../..", "archive", "-o", archive, commit).CombinedOutput(); err != nil {
		return nil, errors.New("commit " + commit + " is not in this clone: fetch the whole history (git fetch --unshallow) and run `make builds` again\n" + string(out))
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		return nil, errors.New("unpack " + commit + ": " + err.Error() + "\n" + string(out))
	}
	b, err := compile(dir, name, source)
	if err == nil {
		b.lacks = lacks
	}
	return b, err
}

func compile(dir, name, source string) (*build, error) {
	b := &build{name: name, program: filepath.Join(dir, "tollgate-"+name)}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version="+name+" -X tollgate/cmd/tollgate/cli.version="+name, "-o", b.program, "./cmd/tollgate")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.New("build " + name + ": " + err.Error() + "\n" + string(out))
	}
	return b, nil
}

// needBuilds skips a test where the programs are not wanted, and gives it an empty
// redis-server of its own.
func needBuilds(t *testing.T) (redisURL string) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skip("builds three programs: make builds")
	}
	if redistest.Kind(t) != redistest.Real {
		t.Fatalf("it needs a real Redis: %s=%s", redistest.Variable, redistest.Real)
	}
	return redistest.Fresh(t).URL
}

// process is a program, started as an operator starts it.
type process struct {
	t     *testing.T
	name  string
	stdin io.WriteCloser
	done  chan struct{} // closed when it has ended
	cmd   *exec.Cmd

	mu     sync.Mutex
	lines  []string // of standard error
	stdout strings.Builder
	addr   chan string // where it serves, once it says so
}

// The keeper passes signals on, and kills the program when this process ends,
// however it ends.
const keeper = `exec 3<&0
"$@" </dev/null 3<&- & p=$!
{ while read -r s <&3; do kill -$s $p; done; kill -9 $p; } >/dev/null 2>&1 & r=$!
wait $p; code=$?
kill $r 2>/dev/null
exit $code`

func (b *build) start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{
		t: t, name: b.name + " " + strings.Join(args[:min(2, len(args))], " "), done: make(chan struct{}), addr: make(chan string, 1),
		cmd: exec.Command("/bin/sh", append([]string{"-c", keeper, "keeper", b.program}, args...)...),
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOLLGATE_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(append(p.cmd.Env, "XDG_STATE_HOME="+p.cmd.Dir), env...)
	p.cmd.Stdout = p
	stdin, err := p.cmd.StdinPipe()
	must(t, err)
	stderr, err := p.cmd.StderrPipe()
	must(t, err)
	p.stdin = stdin
	must(t, p.cmd.Start())
	go func() {
		p.read(stderr)
		_ = p.cmd.Wait() // its code is in ProcessState
		close(p.done)
	}()
	t.Cleanup(func() {
		p.end("KILL")
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.Failed() && len(p.lines) > 0 {
			t.Logf("%s:\n%s", p.name, strings.Join(p.lines[max(0, len(p.lines)-15):], "\n"))
		}
	})
	return p
}

// Write keeps standard output.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout.Write(b)
}

// read keeps standard error, without requests, and notes where it serves.
func (p *process) read(stderr io.Reader) {
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		var entry struct {
			Msg     string `json:"msg"`
			Addr    string `json:"addr"`
			Metrics string `json:"metrics_addr"`
		}
		_ = json.Unmarshal(lines.Bytes(), &entry)
		switch {
		case entry.Msg == "request", strings.Contains(lines.Text(), "  req_"): // in the log, and in that of a sandbox
			continue
		case entry.Msg == "serving":
			p.addr <- entry.Addr
		case entry.Msg == "working":
			p.addr <- entry.Metrics
		}
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
	}
}

// ready waits until it says that it runs, and where.
func (p *process) ready() (addr string) {
	p.t.Helper()
	select {
	case addr = <-p.addr:
	case <-p.done:
		p.t.Fatalf("%s has ended", p.name)
	case <-time.After(patience):
		p.t.Fatalf("%s does not start", p.name)
	}
	return addr
}

// end sends a signal and waits for the end.
func (p *process) end(signal string) {
	_, _ = p.stdin.Write([]byte(signal + "\n")) // it may have ended
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("%s does not end", p.name)
	}
}

// complaints are the lines of its log that tell of something that cannot be read,
// or that it could not do, but for those with one of the words.
func (p *process) complaints(but ...string) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		bad := slices.ContainsFunc([]string{"record_damaged", "damaged", "unreadable", "ERROR", "panic", "integrity", "is held"}, func(word string) bool { return strings.Contains(line, word) })
		if bad && !slices.ContainsFunc(but, func(word string) bool { return strings.Contains(line, word) }) {
			found = append(found, line)
		}
	}
	return found
}

// run is a command that is expected to succeed; it returns what it printed.
func (b *build) run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	p := b.start(t, env, args...)
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.name)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("%s %v: exit code %d\n%s\n%s", b.name, args, code, p.stdout.String(), strings.Join(p.lines, "\n"))
	}
	return p.stdout.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
