package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A mutant survives where no test sees a value change, and where those that do pass
// nevertheless.
func TestSurvivors(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod": "module checks\n",
		"checks.go": `package checks

func Old(age int) bool { return age >= 18 }

func Name(s string) string {
	if s == "" {
		return "nobody"
	}
	return s
}
`,
		"checks_test.go": `package checks

import "testing"

func TestOld(t *testing.T) {
	if Old(17) || !Old(18) {
		t.Fatal()
	}
}

func TestName(t *testing.T) { Name("") }
`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := target{[]string{"*.go"}, []tests{{".", "."}}}
	dir := t.TempDir()
	mutants, overlay, err := of.mutate(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	binaries, err := of.build(dir, 0, overlay)
	if err != nil {
		t.Fatal(err)
	}
	learned, err := of.learn(dir, binaries, 2)
	if err != nil {
		t.Fatal(err)
	}
	names := func(left []mutant) (names []string) {
		for _, m := range left {
			names = append(names, strings.TrimPrefix(m.name, "checks.go "))
		}
		return names
	}
	if have, want := names(survivors(mutants, learned, regexp.MustCompile(""), 2)), []string{`Name: s == "" → false`, `Name: s == "" → true`}; !slices.Equal(have, want) {
		t.Errorf("%q survive, want %q", have, want)
	}
	for _, seen := range learned {
		if seen.name == "TestName" && len(seen.met) != 1 {
			t.Errorf("TestName meets %v", seen.met)
		}
	}
}
