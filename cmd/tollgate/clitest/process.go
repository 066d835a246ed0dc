package clitest

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// startPatience bounds the start and the end of a program, commandPatience a command that
// may have much to read.
const (
	startPatience   = 40 * time.Second
	commandPatience = 4 * time.Minute
)

// Program is the service's program, of some build.
type Program struct {
	Name string // of the build
	Path string
}

// Process is a program, started as an operator starts it.
type Process struct {
	Name string
	Done chan struct{} // closed when it has ended

	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu     sync.Mutex
	killed bool
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

// Start starts a program, which ends with the test at the latest. Nothing that the test
// has in TOLLGATE_… reaches it.
func (g *Program) Start(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{
		Name: g.Name + " " + strings.Join(args[:min(2, len(args))], " "), Done: make(chan struct{}), t: t, addr: make(chan string, 1),
		cmd: exec.Command("/bin/sh", append([]string{"-c", keeper, "keeper", g.Path}, args...)...),
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
		close(p.Done)
	}()
	t.Cleanup(func() {
		p.mu.Lock()
		if t.Failed() && len(p.lines) > 0 && !p.killed {
			t.Logf("%s:\n%s", p.Name, strings.Join(p.lines[max(0, len(p.lines)-15):], "\n"))
		}
		p.mu.Unlock()
		p.End("KILL")
	})
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Write keeps standard output.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout.Write(b)
}

// read keeps standard error, without requests, and notes where it serves.
func (p *Process) read(stderr io.Reader) {
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

// Ready waits until it says that it runs, and where.
func (p *Process) Ready() (addr string) {
	p.t.Helper()
	select {
	case addr = <-p.addr:
	case <-p.Done:
		p.t.Fatalf("%s has ended", p.Name)
	case <-time.After(startPatience):
		p.t.Fatalf("%s does not start", p.Name)
	}
	return addr
}

// Signal sends a signal by its name, such as STOP. It may have ended.
func (p *Process) Signal(signal string) { _, _ = p.stdin.Write([]byte(signal + "\n")) }

// End sends a signal and waits for the end.
func (p *Process) End(signal string) {
	p.mu.Lock()
	p.killed = p.killed || signal == "KILL" // its log says nothing of why
	p.mu.Unlock()
	p.Signal(signal)
	select {
	case <-p.Done:
	case <-time.After(startPatience):
		p.t.Errorf("%s does not end", p.Name)
	}
}

// Lines are those of its log that have one of the words.
func (p *Process) Lines(words ...string) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
			found = append(found, line)
		}
	}
	return found
}

// Complaints are the lines of its log that tell of something that cannot be read,
// or that it could not do, but for those with one of the words.
func (p *Process) Complaints(but ...string) []string {
	return slices.DeleteFunc(p.Lines("record_damaged", "damaged", "unreadable", "ERROR", "panic", "integrity", "is held"), func(line string) bool {
		return slices.ContainsFunc(but, func(word string) bool { return strings.Contains(line, word) })
	})
}

// Try runs a command to its end.
func (g *Program) Try(t testing.TB, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := g.Start(t, env, args...)
	select {
	case <-p.Done:
	case <-time.After(commandPatience):
		t.Fatalf("%s does not end", p.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true // it needs no second account of itself
	return p.cmd.ProcessState.ExitCode(), p.stdout.String(), strings.Join(p.lines, "\n")
}

// Run is a command that is expected to succeed; it returns what it printed.
func (g *Program) Run(t testing.TB, env []string, args ...string) string {
	t.Helper()
	code, stdout, stderr := g.Try(t, env, args...)
	if code != 0 {
		t.Fatalf("%s %v: exit code %d\n%s\n%s", g.Name, args, code, stdout, stderr)
	}
	return stdout
}
