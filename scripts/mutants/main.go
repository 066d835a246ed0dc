// Command mutants takes checks away, one at a time, and says which of them no test misses.
//
// It writes one copy of the code in which every check can be switched off by an
// environment variable, builds the tests with it once, by an overlay, and runs them once
// for each check. What survives either needs a test, or stands in redundant.go with a
// reason. See `make mutants`.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// target is what is mutated, and the tests that have to notice: the next ones run only if
// those before did not.
type target struct {
	files []string // patterns, from the module's root
	tests []tests
}

// tests are those of a package whose names match.
type tests struct{ pkg, run string }

// asked are the tests of package handlers that ask whether somebody may.
const asked = "^(TestTokens|TestEachRefusal|TestMistakes|TestAliases|TestAccess|TestEvery|TestClientsThat|TestRefusalsThat|TestAttacks|TestHistor|TestRepeatsBelong|TestSecretsNowhere|TestConversations|TestRevok|TestOthersTokens|TestIntrospect|TestForged|TestBoundTokens|TestProofs|TestNonces)"

// targets are all files whose checks are taken away.
var targets = []target{
	{[]string{"handlers/auth/*.go"}, []tests{{"./handlers/auth", "."}, {"./handlers", asked}}},
	{[]string{"handlers/authorize.go", "handlers/visitor.go", "handlers/tokens.go", "handlers/oauth/*.go", "handlers/refusals.go", "handlers/clients.go", "handlers/grants.go"}, []tests{{"./handlers", asked}}},
}

// patience is how long the tests may take with a mutant, which may not end.
const patience = 4 * time.Minute

func main() {
	only := flag.String("only", "", "mutants whose names have this in them")
	jobs := flag.Int("jobs", 2, "how many run at once")
	in := flag.String("in", "", "targets whose files have this in their patterns")
	first := flag.Bool("first", false, "the first tests of each target alone, which are the fast ones")
	flag.Parse()
	for i := range targets {
		if *first {
			targets[i].tests = targets[i].tests[:1]
		}
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !strings.Contains(strings.Join(t.files, " "), *in) })
	survivors, err := run(*only, *jobs, *only == "" && *in == "")
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

// run says how many mutants survive that redundant.go does not have; whole, of all targets.
func run(only string, jobs int, whole bool) (survivors int, err error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	seen := make(map[string]bool)
	for i, t := range targets {
		mutants, overlay, err := t.mutate(dir, i)
		if err != nil {
			return 0, err
		}
		binaries, err := t.build(dir, i, overlay)
		if err != nil {
			return 0, err
		}
		left := t.survivors(mutants, binaries, only, jobs)
		for _, m := range mutants {
			seen[m.name] = true
		}
		for _, m := range left {
			if reason, known := redundant[m.name]; known {
				fmt.Printf("redundant %s: %s\n", m.name, reason)
				continue
			}
			survivors++
			fmt.Printf("SURVIVES  %s\n          %s\n", m.name, m.place)
		}
		fmt.Printf("%s: %d mutants, %d survive\n", strings.Join(t.files, " "), len(mutants), len(left))
	}
	for name := range redundant {
		if whole && !seen[name] {
			fmt.Printf("redundant.go has %s, which is no mutant\n", name)
			survivors++
		}
	}
	return survivors, nil
}

// mutate writes the copies of a target's files and the overlay that puts them in place.
func (t target) mutate(dir string, nth int) (mutants []mutant, overlay string, err error) {
	replaced := map[string]string{}
	packages := map[string]string{}
	for _, pattern := range t.files {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, "", err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, pkg, found, err := rewrite(file, len(mutants))
			if err != nil {
				return nil, "", err
			}
			mutants = append(mutants, found...)
			packages[filepath.Dir(file)] = pkg
			if err := put(dir, fmt.Sprintf("%d-%s", nth, strings.ReplaceAll(file, "/", "-")), file, source, replaced); err != nil {
				return nil, "", err
			}
		}
	}
	for folder, pkg := range packages {
		name := fmt.Sprintf("%d-%s-switch.go", nth, strings.ReplaceAll(folder, "/", "-"))
		if err := put(dir, name, filepath.Join(folder, "zz_mutants.go"), fmt.Appendf(nil, switches, pkg), replaced); err != nil {
			return nil, "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return nil, "", err
	}
	overlay = filepath.Join(dir, fmt.Sprintf("%d.json", nth))
	return mutants, overlay, os.WriteFile(overlay, text, 0o600)
}

// put writes a file that stands in the place of another one.
func put(dir, name, place string, source []byte, replaced map[string]string) error {
	absolute, err := filepath.Abs(place)
	if err != nil {
		return err
	}
	replaced[absolute] = filepath.Join(dir, name)
	return os.WriteFile(replaced[absolute], source, 0o600)
}

// build makes the tests' programs, one a package.
func (t target) build(dir string, nth int, overlay string) (binaries []string, err error) {
	for i, of := range t.tests {
		binary := filepath.Join(dir, fmt.Sprintf("%d-%d.test", nth, i))
		out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, of.pkg).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", of.pkg, err, out)
		}
		binaries = append(binaries, binary)
	}
	return binaries, nil
}

// survivors are the mutants that no test notices, of those that are asked for. That the
// tests pass without a mutant is looked at first.
func (t target) survivors(mutants []mutant, binaries []string, only string, jobs int) (left []mutant) {
	if t.noticed(-1, binaries) {
		fmt.Println("the tests fail without a mutant: what follows means nothing")
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	turn := make(chan struct{}, max(1, jobs))
	for _, m := range mutants {
		if !strings.Contains(m.name, only) {
			continue
		}
		turn <- struct{}{}
		running.Go(func() {
			defer func() { <-turn }()
			if !t.noticed(m.number, binaries) {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, m)
				fmt.Fprintf(os.Stderr, "no test notices %s\n", m.name)
			}
		})
	}
	running.Wait()
	slices.SortFunc(left, func(a, b mutant) int { return a.number - b.number })
	return left
}

// noticed reports whether a test fails with a mutant, or does not end.
func (t target) noticed(number int, binaries []string) bool {
	for i, of := range t.tests {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		cmd := exec.CommandContext(ctx, binaries[i], "-test.run", of.run, "-test.failfast", "-test.short")
		cmd.Dir = of.pkg
		cmd.Env = append(cmd.Environ(), fmt.Sprintf("%s=%d", variable, number))
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			if number < 0 {
				fmt.Printf("%s\n", bytes.TrimSpace(out[max(0, len(out)-4000):]))
			}
			return true
		}
	}
	return false
}
