package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// Redis is lost after payments were moved to the archive that an older copy has in Redis.
// The copy is restored, and what was moved since is taken back: every answer about what the
// copy has is as before.
func TestRestoredBesideItsArchive(t *testing.T) {
	server := redistest.Started(t, redistest.Real)
	dir := filepath.Join(t.TempDir(), "archive")
	env := []string{"TOLLGATE_REDIS_URL=" + server.URL, "TOLLGATE_ARCHIVE_URL=file://" + dir}
	began := 0
	start := func() *sandbox {
		began++
		file := filepath.Join(t.TempDir(), fmt.Sprintf("dev%d.env", began))
		return awaitSandbox(t, launch(t, env[1:], "dev", "--redis", server.URL, "--addr", "127.0.0.1:0", "--write-env", file, "--no-log"), file)
	}
	s := start()
	pay := func(reference string) string {
		return s.run("pay", "100.00", "EUR", "shop.example", "--automatic", "--reference", reference, "--quiet")
	}
	settled := func(n int) {
		t.Helper()
		s.run("clock", "advance", "720h", "--quiet")
		testkit.Eventually(t, "all is settled", func() bool { return strings.Count(s.run("transactions", "--status", "settled"), "txn_") >= n })
	}
	moved := func(payments int) {
		t.Helper()
		s.run("clock", "advance", "2400h", "--quiet")
		testkit.Eventually(t, "the archive has them", func() bool {
			out := runProgram(t, env, "archive", "status")
			return strings.Contains(out, fmt.Sprintf("\n%d payments in ", payments)) && strings.Contains(out, "complete") && !strings.Contains(out, "still in Redis")
		})
	}
	all := []string{pay("first"), pay("second")}
	settled(4)
	moved(2)
	all = append(all, pay("third"), pay("fourth"))
	settled(8)
	answers := func() (text string) {
		for _, command := range [][]string{{"payments"}, {"transactions"}} {
			text += s.run(append(command, "--json")...) + "\n"
		}
		for _, id := range all {
			text += s.run("ticket", id) + "\n" + s.run("transactions", "--payment", id, "--json") + "\n"
		}
		return text
	}
	before := answers()
	kept := filepath.Join(t.TempDir(), "copy")
	if out := runProgram(t, env, "backup", kept); !strings.Contains(out, "0 findings") {
		t.Errorf("the copy: %s", out)
	}
	lost := pay("fifth") // acknowledged, and made after the copy
	settled(10)
	s.run("refund", all[3], "10.00")
	moved(4)
	s.run("refund", all[0], "10.00")
	row := runProgram(t, env, "archive", "cat", lost)
	s.kill()
	if err := server.Empty(); err != nil {
		t.Fatal(err)
	}

	runProgram(t, env, "restore", kept)
	if out := runProgram(t, env, "check"); !strings.Contains(out, "\n0 findings") {
		t.Errorf("restored: %s", out)
	}
	if out := runProgram(t, env, "archive", "check"); !strings.Contains(out, "it follows the lines that Redis has: 'tollgate archive check --adopt' takes it back") || !strings.Contains(out, "\nchecked 1 lines") {
		t.Errorf("archive check: %s", out)
	}
	out := runProgram(t, env, "archive", "check", "--adopt")
	for _, says := range []string{
		"took back 1 lines with 2 payments: removed 1 from Redis, kept 0 in Redis that are in another state, 1 are not in the lists of Redis\nchecked 2 lines, 6 packs, 4 payments",
		"1 of its payments are not in the lists of Redis",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("archive check --adopt does not say %q: %s", says, out)
		}
	}
	if out := runProgram(t, env, "archive", "check", "--adopt"); !strings.HasPrefix(out, "took back 0 lines with 0 payments") {
		t.Errorf("again: %s", out)
	}
	if out := runProgram(t, env, "archive", "check", "--adopt", "--json"); !strings.HasPrefix(out, `{"lines":2,`) || !strings.Contains(out, `"adopted":{"lines":0`) {
		t.Errorf("again, as JSON: %s", out)
	}
	if again := runProgram(t, env, "archive", "cat", lost); again != row {
		t.Errorf("%s was\n%s\nand is\n%s", lost, row, again)
	}
	if out := runProgram(t, env, "archive", "export"); strings.Count(out, "\n") != 3 || !strings.Contains(out, lost) {
		t.Errorf("exported: %s", out)
	}

	s = start()
	if after := answers(); after != before {
		t.Errorf("all was\n%s\nand is\n%s", before, after)
	}
	if out := runProgram(t, env, "check"); !strings.Contains(out, "\n0 findings") {
		t.Errorf("%s", out)
	}
}
