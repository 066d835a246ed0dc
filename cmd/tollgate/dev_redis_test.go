package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// sandbox is a running `tollgate dev` on a Redis that outlives it.
type sandbox struct {
	*process
	env          map[string]string // of the file that it wrote
	key, ruleKey string            // private JWKs: the client's, the rule signer's
}

func startSandbox(t *testing.T, redisURL string) *sandbox {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dev.env")
	return awaitSandbox(t, launch(t, nil, "dev", "--redis", redisURL, "--addr", "127.0.0.1:0", "--write-env", file, "--no-log"), file)
}

func awaitSandbox(t *testing.T, p *process, file string) *sandbox {
	t.Helper()
	s := &sandbox{process: p, env: map[string]string{}}
	testkit.Eventually(t, "the sandbox is ready", func() bool {
		select {
		case <-p.done:
			t.Fatalf("%s ended with %s", p.cmd, p.cmd.ProcessState)
		default:
		}
		_, err := os.Stat(file)
		return err == nil
	})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		s.env[name] = value
	}
	s.key, s.ruleKey = fileContent(t, s.env["TOLLGATE_CLIENT_JWK"]), fileContent(t, s.env["TOLLGATE_RULE_KEY"])
	return s
}

func fileContent(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run is a client command against it.
func (s *sandbox) run(args ...string) string {
	s.t.Helper()
	var env []string
	for name, value := range s.env {
		env = append(env, name+"="+value)
	}
	return runProgram(s.t, env, args...)
}

// lasting is what must be the same in every sandbox on one Redis.
func (s *sandbox) lasting() map[string]string {
	of := maps.Clone(s.env)
	for _, name := range []string{"TOLLGATE_URL", "TOLLGATE_ISSUER", "TOLLGATE_TOKEN", "TOLLGATE_CONSOLE", "TOLLGATE_CLIENT_JWK", "TOLLGATE_RULE_KEY"} { // address, moment, the console of this start, paths
		delete(of, name)
	}
	of["key"] = s.key
	of["rule key"] = s.ruleKey
	return of
}

// interrupt is Ctrl-C.
func (s *sandbox) interrupt() {
	s.t.Helper()
	s.signal(syscall.SIGINT)
	if code := s.exit(); code != 0 {
		s.t.Errorf("exit code %d", code)
	}
	if !strings.Contains(s.out(), "Stopped; everything is ") || strings.Contains(s.out(), "gone") {
		s.t.Errorf("it said\n%s", s.out())
	}
}

// On a real Redis it is the same organization the next time, and what was
// there goes on.
func TestSandboxOnTheSameRedis(t *testing.T) {
	url := redistest.URL(t)
	first := startSandbox(t, url)
	payment := first.run("pay", "100.00", "EUR", "shop.example", "--quiet")
	first.run("capture", payment, "60.00", "--final=false")
	before := first.run("payment", payment, "--json") + first.run("ticket", payment, "--json") + first.run("events", "--types", "payment.*", "--json") +
		first.run("transactions", "--json")
	first.interrupt()

	second := startSandbox(t, url)
	if a, b := first.lasting(), second.lasting(); !maps.Equal(a, b) || len(a) != 11 {
		t.Errorf("%v\nthen %v", a, b)
	}
	after := second.run("payment", payment, "--json") + second.run("ticket", payment, "--json") + second.run("events", "--types", "payment.*", "--json") +
		second.run("transactions", "--json")
	if withoutCursors(before) != withoutCursors(after) {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	second.run("capture", payment)
	if text := second.run("payment", payment, "--json"); !strings.Contains(text, `"status": "captured"`) {
		t.Errorf("captured to the end: %s", text)
	}
	second.run("clock", "advance", "26h", "--quiet")
	second.interrupt()

	third := startSandbox(t, url)
	if text := third.run("clock"); !strings.Contains(text, "26h0m0s of real time") {
		t.Errorf("the clock went back: %s", text)
	}
	third.interrupt()
}

// An idempotency key is remembered for 7 days of the sandbox's clock, on every
// Redis.
func TestSandboxForgetsIdempotencyKeys(t *testing.T) {
	s := startSandbox(t, redistest.URL(t))
	pay := func() string {
		return s.run("pay", "100.00", "EUR", "shop.example", "--quiet", "--idempotency-key", "once")
	}
	first := pay()
	s.run("clock", "advance", "144h", "--quiet")
	if again := pay(); again != first {
		t.Errorf("after 6 days it is %s, it was %s", again, first)
	}
	s.run("clock", "advance", "25h", "--quiet")
	if again := pay(); again == first {
		t.Errorf("after 7 days it is still %s", again)
	}
	s.interrupt()
}

// Two that start at the same moment on an empty Redis agree on one
// organization, and each can use what the other made.
func TestTwoSandboxesAtOnce(t *testing.T) {
	url := redistest.URL(t)
	files := [2]string{filepath.Join(t.TempDir(), "dev.env"), filepath.Join(t.TempDir(), "dev.env")}
	var started [2]*process
	for i, file := range files {
		started[i] = launch(t, nil, "dev", "--redis", url, "--addr", "127.0.0.1:0", "--write-env", file, "--no-log")
	}
	one, two := awaitSandbox(t, started[0], files[0]), awaitSandbox(t, started[1], files[1])
	if a, b := one.lasting(), two.lasting(); !maps.Equal(a, b) {
		t.Errorf("%v\nand %v", a, b)
	}
	payment := one.run("pay", "5.00", "EUR", "shop.example", "--quiet")
	two.run("capture", payment)
	one.interrupt()
	two.interrupt()
}

// withoutCursors drops the sealed positions, which differ each time.
func withoutCursors(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, `"next_cursor"`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
