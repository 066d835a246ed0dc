package provision

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// A version of a perimeter that an earlier release stored is no conflict with
// the file that it came from. It keeps its meaning, and provision says so; a new
// version has today's.
func TestProvisionKeepsEarlierPerimeters(t *testing.T) {
	m := miniredis.RunT(t)
	file := filepath.Join(t.TempDir(), "org.yaml")
	provision := func(perimeters string) (exit int, stdout, stderr string) {
		t.Helper()
		text := "organizations:\n  - {id: org_1, name: One, home_region: fra, perimeters: [" + perimeters + "]}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, out, errs := clitest.App(map[string]string{"TOLLGATE_REDIS_URL": "redis://" + m.Addr()})
		return a.Run(t.Context(), clitest.Root(a, Commands(a)...), []string{"provision", "-f", file}), out.String(), errs.String()
	}
	const first = `{id: per_1, version: 1, constraints: {payees_allowed: []}}`
	if exit, stdout, stderr := provision(first); exit != cli.ExitOK || stderr != "" {
		t.Fatal(exit, stdout, stderr)
	}
	// As an earlier release stored it, and one with payees that it took.
	kept := 0
	for _, key := range m.Keys() {
		if strings.HasSuffix(key, ":per_1:1") {
			text, err := m.Get(key)
			if err != nil || !strings.Contains(text, `,"semantics":2`) {
				t.Fatalf("%s %v", text, err)
			}
			_, text, _ = strings.Cut(strings.Replace(text, `,"semantics":2`, "", 1), ",") // without its checksum
			text = "{" + text
			for at, stored := range map[string]string{key: text, strings.TrimSuffix(key, "1") + "2": `{"id":"per_1","version":2,"constraints":{"payees_allowed":["shop.example:443"]}}`} {
				if err := m.Set(at, stored); err != nil {
					t.Fatal(err)
				}
				kept++
			}
		}
	}
	if kept != 2 {
		t.Fatal(m.Keys())
	}
	const second = `{id: per_1, version: 2, constraints: {payees_allowed: ["shop.example:443"]}}`
	exit, stdout, stderr := provision(first + ", " + second)
	if exit != cli.ExitOK || !strings.Contains(stdout, "nothing to change") ||
		!strings.Contains(stderr, "warning: perimeter per_1@1 keeps its meaning") || !strings.Contains(stderr, "warning: perimeter per_1@2 keeps its meaning") {
		t.Errorf("the same file: %d %s %s", exit, stdout, stderr)
	}
	if exit, stdout, stderr = provision(`{id: per_1, version: 1, constraints: {}}`); exit != cli.ExitUsage || !strings.Contains(stderr, "versions are immutable") {
		t.Errorf("another content: %d %s %s", exit, stdout, stderr)
	}
	exit, stdout, stderr = provision(`{id: per_1, version: 3, constraints: {payees_allowed: ["shop.example:443"]}}`)
	if exit != cli.ExitUsage || !strings.Contains(stderr, `constraints.payees_allowed: "shop.example:443" is neither a payee nor a pattern`) {
		t.Errorf("a new version with a payee that is none: %d %s %s", exit, stdout, stderr)
	}
	exit, stdout, stderr = provision(`{id: per_1, version: 3, constraints: {payees_allowed: null}}`)
	if exit != cli.ExitUsage || !strings.Contains(stderr, "payees_allowed is null") {
		t.Errorf("a new version with null: %d %s %s", exit, stdout, stderr)
	}
	exit, stdout, stderr = provision(`{id: per_1, version: 3, constraints: {payees_allowed: [], refunds_restore_budget: true, unbudgeted_currencies: allow}}`)
	if exit != cli.ExitOK || stderr != "" {
		t.Errorf("a new version: %d %s %s", exit, stdout, stderr)
	}
}
