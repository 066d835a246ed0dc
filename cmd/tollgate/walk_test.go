package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tollgate/rediskv/redistest"
)

// walk PAGE plays a page beside a sandbox whose environment is in
// .tollgate/dev.env: its commands run in one shell, as printed and in the order
// printed. Each block of commands must print the lines that the page shows below
// it, in their order; only identifiers, times and keys may be other ones. None
// may fail, but where the page shows the error. contributing.md, "Examples that
// run", says how a page marks its blocks.
func walk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: walk page")
	}
	name := "../../handlers/docs/" + args[0]
	if args[0] == "README.md" {
		name = "../../" + args[0]
	}
	page, err := os.ReadFile(name)
	ts.Check(err)
	steps := readWalk(moved(ts, string(page)))
	if len(steps) == 0 {
		ts.Fatalf("%s has no commands", args[0])
	}
	p := newPlayer(ts)
	for i, s := range steps {
		for file, text := range s.files {
			ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(file)), 0o700))
			ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
		}
		if printed, why := p.play(i, s); why != "" {
			ts.Fatalf("%s: %s in\n%s\nthese commands print\n%s", args[0], why, s.commands, printed)
		}
	}
}

// walkStep is a block of commands, the files that the page shows before it, and
// what it shows of the output below it, in one block or several.
type walkStep struct {
	files           map[string]string
	commands, shown string
}

// refused reports whether the page shows that the last command ends with an error.
func (s walkStep) refused() bool { return strings.Contains("\n"+s.shown, "\ntollgate: ") }

// namesFile is the first line of a block that the reader saves: a comment with the
// file's name.
var namesFile = regexp.MustCompile(`^(?:#|//) ([\w-]+(?:/[\w-]+)*\.\w+)\n`)

func readWalk(page string) (steps []walkStep) {
	files := map[string]string{}
	for i, part := range strings.Split("\n"+page, "\n```") {
		kind, body, _ := strings.Cut(part, "\n")
		body += "\n"
		switch name := namesFile.FindStringSubmatch(body); {
		case i%2 == 0: // between blocks
		case name != nil:
			files[name[1]] = body
		case kind == "sh":
			steps = append(steps, walkStep{files: files, commands: body})
			files = map[string]string{}
		case kind == "text" && len(steps) > 0:
			steps[len(steps)-1].shown += body
		}
	}
	return steps
}

var loopback = regexp.MustCompile(`(?:redis://)?127\.0\.0\.1:(\d{4,5})`)

// moved is a page with addresses that are free here in the place of its own:
// that of the sandbox, that of its Redis, and those on which the reader listens,
// whose ports may stand alone as well, as in listen(3001, '127.0.0.1').
func moved(ts *testscript.TestScript, page string) string {
	sandbox := regexp.MustCompile(`TOLLGATE_URL=http://(\S+)`).FindStringSubmatch(ts.ReadFile(".tollgate/dev.env"))
	page = strings.ReplaceAll(page, "127.0.0.1:8080", sandbox[1])
	page = strings.ReplaceAll(page, "redis://127.0.0.1:6379", ts.Getenv("PAGE_REDIS_URL"))
	page = strings.ReplaceAll(page, "redis://127.0.0.1:6380", ts.Getenv("SECOND_REDIS_URL"))
	known := map[string]bool{}
	for _, m := range loopback.FindAllStringSubmatch(page, -1) {
		if known[m[1]] || m[0] == sandbox[1] || strings.HasPrefix(m[0], "redis:") {
			continue
		}
		known[m[1]] = true
		free, err := redistest.FreeAddr()
		ts.Check(err)
		_, port, err := net.SplitHostPort(free)
		ts.Check(err)
		page = regexp.MustCompile(`\b`+m[1]+`\b`).ReplaceAllString(page, port)
	}
	return page
}

// player is a shell that plays one step after the other, so that what one step
// sets or starts is there for the next.
type player struct {
	ts    *testscript.TestScript
	steps *os.File      // to the shell
	ended chan struct{} // closed when the shell has ended

	mu     sync.Mutex
	output strings.Builder // of everything, also of what runs in the background
	from   int             // of the step that is being played
}

// played is what the shell runs. A step that is to fail has to end with an error.
const played = `set -e
while read -r must step <&3; do
	case $must in
	work) . "$step" </dev/null ;;
	fail) set +e; . "$step" </dev/null; code=$?; set -e; [ "$code" -ne 0 ] ;;
	esac
	printf '\n---- %s is over\n' "$step"
done`

func newPlayer(ts *testscript.TestScript) *player {
	ts.Check(ts.Exec("env"))
	env := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	read, steps, err := os.Pipe()
	ts.Check(err)
	in, out, err := os.Pipe()
	ts.Check(err)
	c := exec.Command("/bin/sh", "-c", played)
	c.Dir, c.Env, c.Stdout, c.Stderr, c.ExtraFiles = ts.MkAbs("."), env, out, out, []*os.File{read}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ts.Check(c.Start())
	read.Close()
	out.Close()
	p := &player{ts: ts, steps: steps, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = c.Wait() // what became of it, the steps say
	}()
	over := make(chan struct{})
	go func() { // until the last process that writes there has ended
		defer close(over)
		buffer := make([]byte, 4096)
		for {
			n, err := in.Read(buffer)
			p.mu.Lock()
			p.output.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	ts.Defer(func() {
		steps.Close()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
		select {
		case <-over:
		case <-time.After(patience):
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		}
		<-p.ended
		in.Close()
	})
	return p
}

// play plays a step and waits until its commands have ended and everything that
// the page shows has been printed, for programs in the background print when
// they like. It returns what was printed, and why it is not as the page says.
func (p *player) play(number int, s walkStep) (printed, why string) {
	name, must := fmt.Sprintf("./step-%d.sh", number), "work"
	if s.refused() {
		must = "fail"
	}
	p.ts.Check(os.WriteFile(p.ts.MkAbs(name), []byte(s.commands), 0o600))
	if _, err := fmt.Fprintln(p.steps, must, name); err != nil {
		return p.printed(), "the shell has ended"
	}
	over := "\n---- " + name + " is over\n"
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		printed = p.printed()
		done, late := strings.Contains(printed, over), time.Now().After(deadline)
		missing, ok := shows(printed, s.shown)
		switch {
		case done && ok:
			p.mu.Lock()
			p.from = p.output.Len()
			p.mu.Unlock()
			return printed, ""
		case late && done:
			return printed, fmt.Sprintf("%q is shown and not printed at its place", missing)
		case late:
			return printed, "a command does not end"
		}
		select {
		case <-p.ended:
			return p.last(), "a command fails, or works where an error is shown,"
		default:
		}
	}
}

// last is what a shell that has ended has printed, as soon as it has been read.
func (p *player) last() string {
	time.Sleep(100 * time.Millisecond) // others may have the pipe open, so it has no end
	return p.printed()
}

func (p *player) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()[p.from:]
}

// changing is what is another time another: identifiers, times, dates, secrets,
// how long something took, the thumbprints of keys, what V8 runs in, and how much a copy
// has.
var changing = regexp.MustCompile(`\b[a-z]{2,4}_[0-9a-z]{26}\b|\b\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?|\bwh[sp][ek]c?_[\w+/=]+|\b[0-9a-f]{32}\b|\bkey [0-9a-f]{16}\b|\b\d+ ms\b|\b\d+ bytes\b|^checked \d.*|\bkey [\w-]{43}|in V8 \(node [^)]*\)|not in V8 \([^)]*\)`)

// shows reports whether an output has lines in this order, or the first that
// is missing. Columns may be as wide as they like.
func shows(output, lines string) (missing string, ok bool) {
	plain := func(line string) string {
		return strings.Join(strings.Fields(changing.ReplaceAllString(line, "…")), " ")
	}
	rest := strings.Split(output, "\n")
	for line := range strings.Lines(lines) {
		want := plain(line)
		if want == "" {
			continue // between the outputs of two commands
		}
		for len(rest) > 0 && plain(rest[0]) != want {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return strings.TrimSpace(line), false
		}
		rest = rest[1:]
	}
	return "", true
}
