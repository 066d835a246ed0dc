package main

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
)

// What is provisioned in a sandbox's Redis goes by the sandbox's clock.
func TestProvisionGoesByTheSandboxClock(t *testing.T) {
	url := redistest.URL(t)
	store, err := store.Open(t.Context(), rediskv.Options{URL: url, Clock: time.Now, Entropy: rand.Reader, Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command("tollgate", args...)
		c.Env = append(os.Environ(), "TOLLGATE_REDIS_URL="+url, storeTimeoutVariable+"="+storePatience.String())
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	file := filepath.Join(t.TempDir(), "example.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	example := run("provision", "--example")
	write(example)
	run("provision", "-f", file)
	const ahead = 400 * 24 * time.Hour
	if err := store.KeepSandboxClock(t.Context(), ahead.Milliseconds()); err != nil {
		t.Fatal(err)
	}
	write(strings.Replace(example, `cutoff_time: "17:00"`, `cutoff_time: "18:00"`, 1))
	out := run("provision", "-f", file)
	from := regexp.MustCompile(`\(from (\d{4}-\d\d-\d\d)\)`).FindStringSubmatch(out)
	if from == nil {
		t.Fatalf("no cutoff has changed:\n%s", out)
	}
	if date, err := time.Parse(time.DateOnly, from[1]); err != nil || time.Until(date) < ahead-48*time.Hour {
		t.Errorf("it holds from %s, although the sandbox is %s ahead", from[1], ahead)
	}
}
