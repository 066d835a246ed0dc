package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv"
	"tollgate/rediskv/packs/shelf/s3/s3test"
	"tollgate/rediskv/redistest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tollgate": func() {
		timeout, _ := time.ParseDuration(os.Getenv(storeTimeoutVariable)) // zero when it is not set
		start(timeout, os.Getenv(loopbackVariable) != "")
	}})
}

// TestScripts plays the conversations in testdata with the real program.
// $REDIS_URL is a Redis of the kind under test, $SANDBOX_URL one for sandboxes,
// which have another secret key, and $PAGE_REDIS_URL one for a page's sandbox:
// each script that names it has its own, because what a page does lasts there (one
// disables the sandbox's client), and scripts run in any order. $S3_URL is a place for
// an archive in a bucket.
func TestScripts(t *testing.T) {
	redis, sandbox := redistest.URL(t), redistest.URL(t)
	pages, buckets := pageStores(t), s3test.New(t)
	second := "" // of a page that copies one Redis into another; a copy needs real ones
	if _, err := exec.LookPath("redis-server"); err == nil {
		primary, other := redistest.Replicated(t)
		pages["script-walk_operations"], second = primary.URL, other.URL
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("REDIS_URL", redis)
			env.Setenv("SANDBOX_URL", sandbox)
			env.Setenv("SECOND_REDIS_URL", second)
			env.Setenv("PAGE_REDIS_URL", pages[filepath.Base(env.WorkDir)])
			env.Setenv("S3_URL", buckets.At("/"+filepath.Base(env.WorkDir)))
			env.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
			env.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
			env.Setenv(storeTimeoutVariable, storePatience.String())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"appears": appears, "source": source, "keep": keep, "pasted": pasted, "quote": quote, "overdue": overdue, "receiver": receiver, "walk": walk, "samples": samples, "observed": observed,
		},
		RequireExplicitExec: true,
	})
}

// pageStores is the Redis of each script that names $PAGE_REDIS_URL, by the base
// name of the script's folder.
func pageStores(t *testing.T) map[string]string {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	stores := map[string]string{}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "$PAGE_REDIS_URL") {
			stores["script-"+strings.TrimSuffix(filepath.Base(script), ".txtar")] = redistest.URL(t)
		}
	}
	return stores
}

// overdue ORGANIZATION PAYMENT puts a payment into the queue of deadlines, by hand.
func overdue(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: overdue organization payment")
	}
	db, err := rediskv.Open(context.Background(), rediskv.Options{URL: ts.Getenv("REDIS_URL"), Clock: time.Now, Entropy: rand.Reader, Timeout: storePatience})
	ts.Check(err)
	defer db.Close()
	ts.Check(db.Redis.Do(context.Background(), "ZADD", db.Space(args[0]).Due, 5, args[0]+"/"+args[1]).Err())
}

// receiver FILE NAME builds the program that webhooks.md has for receiving
// webhooks, which then listens on its first argument instead of its own port,
// and sets a variable to an address that is free for it.
func receiver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: receiver file name")
	}
	page, err := os.ReadFile("../../handlers/docs/webhooks.md")
	ts.Check(err)
	_, source, _ := strings.Cut(string(page), "```go\n")
	source, _, _ = strings.Cut(source, "```")
	const documented = `"127.0.0.1:3000"`
	if strings.Count(source, documented) != 1 {
		ts.Fatalf("webhooks.md: the receiver does not listen on %s:\n%s", documented, source)
	}
	file := ts.MkAbs("receiver.go")
	ts.Check(os.WriteFile(file, []byte(strings.Replace(source, documented, "os.Args[1]", 1)), 0o600))
	out, err := exec.Command("go", "build", "-o", ts.MkAbs(args[0]), file).CombinedOutput()
	if err != nil {
		ts.Fatalf("webhooks.md: the receiver does not build: %v\n%s", err, out)
	}
	address, err := redistest.FreeAddr()
	ts.Check(err)
	ts.Setenv(args[1], address)
}

const patience = clitest.Patience

// storeTimeoutVariable gives the programs under test more than the two seconds
// that a call to Redis may take: storePatience, which an answer to a client can
// hold as well. Tests of outages do without it.
const (
	storeTimeoutVariable = "TOLLGATE_TEST_STORE_TIMEOUT"
	loopbackVariable     = "TOLLGATE_TEST_LOOPBACK"
	storePatience        = 20 * time.Second
)

// appears FILE [PATTERN] waits until a file exists and matches.
func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: appears file [pattern]")
	}
	pattern := regexp.MustCompile(".")
	if len(args) == 2 {
		pattern = regexp.MustCompile(args[1])
	}
	deadline := time.Now().Add(patience)
	for {
		content, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && pattern.Match(content) {
			return
		}
		if time.Now().After(deadline) {
			for _, text := range said(ts) {
				ts.Logf("%s", text)
			}
			ts.Fatalf("%s does not appear in %s: %v\n%s", pattern, args[0], err, content)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// said is what the programs in the background have written to files by now.
func said(ts *testscript.TestScript) (texts []string) {
	for _, end := range []string{"*.out", "*.err"} {
		files, err := filepath.Glob(ts.MkAbs(end))
		ts.Check(err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			ts.Check(err)
			texts = append(texts, fmt.Sprintf("-- %s --\n%s", filepath.Base(file), text))
		}
	}
	return texts
}

// quote ARG… is `tollgate quote`, again while the price is of rules as they were:
// right after a change an instance that is busy knows no better yet, and says so.
func quote(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: quote amount currency payee")
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := ts.Exec("tollgate", append([]string{"quote"}, args...)...)
		if !strings.Contains(ts.ReadFile("stdout"), "Redis is away") {
			ts.Check(err)
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the quote stays one of rules as they were")
		}
	}
}

// source FILE sets the variables of a file of NAME=VALUE lines.
func source(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: source file")
	}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			ts.Fatalf("%s: not NAME=VALUE: %q", args[0], line)
		}
		ts.Setenv(name, value)
	}
}

// keep NAME FILE [PATTERN] sets a variable to what a file holds, or to what
// the first group of a pattern finds there.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: keep name file [pattern]")
	}
	value := ts.ReadFile(args[1])
	if len(args) == 3 {
		found := regexp.MustCompile(args[2]).FindStringSubmatch(value)
		if len(found) != 2 {
			ts.Fatalf("%s is not in %s:\n%s", args[2], args[1], value)
		}
		value = found[1]
	}
	ts.Setenv(args[0], strings.TrimSpace(value))
}

// pasted FILE SCRIPT makes a shell script of the commands that `tollgate dev`
// printed, as printed.
func pasted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pasted file script")
	}
	_, guide, ok := strings.Cut(ts.ReadFile(args[0]), "Paste into another shell:")
	if !ok {
		ts.Fatalf("%s holds no guide", args[0])
	}
	var script strings.Builder
	script.WriteString("set -e\n")
	commands := 0
	for line := range strings.Lines(guide) {
		if strings.HasPrefix(line, "  ") {
			script.WriteString(line)
			commands++
		}
	}
	if commands < 9 {
		ts.Fatalf("%s holds only %d commands", args[0], commands)
	}
	ts.Check(os.WriteFile(filepath.Clean(ts.MkAbs(args[1])), []byte(script.String()), 0o700))
}
