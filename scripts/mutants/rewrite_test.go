package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A condition is switched as a whole, in its parts and at its bounds, each once.
func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checks.go")
	const source = `package checks

func check(a, b int, c bool) bool {
	if a < b && !c {
		return a == b
	}
	switch {
	case c:
		return true
	}
	return false
}
`
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	text, pkg, found, err := rewrite(path, 10)
	if err != nil || pkg != "checks" {
		t.Fatal(pkg, err)
	}
	var names []string
	for i, m := range found {
		if m.number != 10+i {
			t.Errorf("%s has the number %d", m.name, m.number)
		}
		names = append(names, strings.TrimPrefix(m.name, "checks.go check: "))
	}
	want := "a < b → <=, a < b → true, !c → true, a < b && !c → false, a < b && !c → true, a == b → false, a == b → true, c → false, c → true"
	if have := strings.Join(names, ", "); have != want {
		t.Errorf("%s\nwant %s", have, want)
	}
	if !strings.Contains(string(text), "if mutantTo(14, mutantTo(13, mutantTo(11, mutantTo(10, a < b, a <= b), true) && mutantTo(12, !c, true), false), true) {") {
		t.Errorf("%s", text)
	}
}
