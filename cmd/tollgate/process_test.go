package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// process is the program, started by a test as an operator starts it.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu     sync.Mutex
	stdout strings.Builder
	lines  []string        // of standard error, without those of requests
	log    strings.Builder // all of standard error
	marks  map[string]any  // the log line "serving", once it is there
	came   chan struct{}   // closed then
}

// launch starts the program with an environment of its own: nothing that the
// test process has in TOLLGATE_… reaches it.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command("tollgate", args...), done: make(chan struct{}), came: make(chan struct{})}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOLLGATE_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	lifeline, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer lifeline.Close() // the child's end
	p.cmd.Env = append(append(p.cmd.Env, lifelineVariable+"=1", storeTimeoutVariable+"="+storePatience.String()), env...)
	p.cmd.ExtraFiles = []*os.File{lifeline}
	p.cmd.Stdout = writerFunc(func(b []byte) { p.stdout.Write(b) }).locked(&p.mu)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.read(stderr)
		_ = p.cmd.Wait() // its code is in ProcessState
		hold.Close()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("%s:\n%s", p.cmd, strings.Join(p.lines[max(0, len(p.lines)-40):], "\n"))
		}
	})
	return p
}

// read keeps standard error and notes the line that says where it serves.
func (p *process) read(stderr io.Reader) {
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		if strings.Contains(lines.Text(), `"msg":"request"`) {
			continue
		}
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		if p.marks == nil {
			var entry map[string]any
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry["msg"] == "serving" {
				p.marks = entry
				close(p.came)
			}
		}
		p.mu.Unlock()
	}
}

// serving waits until it serves and returns its URL.
func (p *process) serving() string {
	p.t.Helper()
	select {
	case <-p.came:
		return "http://" + p.marks["addr"].(string)
	case <-p.done:
		p.t.Fatalf("%s ended with %s", p.cmd, p.cmd.ProcessState)
	case <-time.After(patience):
		p.t.Fatalf("%s does not serve", p.cmd)
	}
	return ""
}

// kill is SIGKILL: it gets no chance to do anything.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// signal asks it to stop.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for its end and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.cmd)
	}
	return p.cmd.ProcessState.ExitCode()
}

// out is its standard output until now, without the space around it.
func (p *process) out() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(p.stdout.String())
}

// runProgram runs a command that is expected to succeed and returns what it
// printed.
func runProgram(t *testing.T, env []string, args ...string) string {
	t.Helper()
	p := launch(t, env, args...)
	if code := p.exit(); code != 0 {
		t.Fatalf("%s: exit code %d", p.cmd, code)
	}
	return p.out()
}

// writerFunc is an io.Writer made of a function.
type writerFunc func([]byte)

func (w writerFunc) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

func (w writerFunc) locked(mu *sync.Mutex) writerFunc {
	return func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		w(b)
	}
}

// says reports whether a line of its log has text.
func (p *process) says(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.lines, func(line string) bool { return strings.Contains(line, text) })
}

// wrote is all that it has written until now.
func (p *process) wrote() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout.String() + p.log.String()
}
