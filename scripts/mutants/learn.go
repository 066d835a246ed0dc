package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// test is one test, and what was learned of it while no mutant was on.
type test struct {
	binary, pkg, name string
	took              time.Duration   // of a processor
	met               map[string]bool // the numbers of mutants that would have changed a value
}

// learn runs each test of a target alone and without a mutant.
func (t target) learn(dir string, binaries []string, jobs int) (learned []*test, err error) {
	for i, of := range t.tests {
		cmd := exec.Command(binaries[i], "-test.list", of.run)
		cmd.Dir = of.pkg
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the tests of %s: %w", of.pkg, err)
		}
		for name := range strings.FieldsSeq(string(out)) {
			if !strings.HasPrefix(name, "Benchmark") {
				learned = append(learned, &test{binary: binaries[i], pkg: of.pkg, name: name})
			}
		}
	}
	failures := make([]error, len(learned))
	atOnce(jobs, len(learned), func(i int) {
		failures[i] = learned[i].learn(filepath.Join(dir, fmt.Sprintf("met-%d", i)))
	})
	slices.SortStableFunc(learned, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	return learned, cmp.Or(failures...)
}

// learn runs a test without a mutant. The error is what it says if it fails.
func (t *test) learn(file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	cmd := command(context.Background(), []*test{t}, metFile+"="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s fails without a mutant: %w\n%s", t.name, err, bytes.TrimSpace(out[max(0, len(out)-4000):]))
	}
	t.took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	numbers, err := os.ReadFile(file)
	t.met = make(map[string]bool)
	for number := range strings.FieldsSeq(string(numbers)) {
		t.met[number] = true
	}
	return err
}

// command runs tests of one package.
func command(ctx context.Context, of []*test, env string) *exec.Cmd {
	names := make([]string, len(of))
	for i, t := range of {
		names[i] = t.name
	}
	cmd := exec.CommandContext(ctx, of[0].binary, "-test.run", "^("+strings.Join(names, "|")+")$", "-test.failfast", "-test.short")
	cmd.Dir = of[0].pkg
	cmd.Env = append(cmd.Environ(), env)
	return cmd
}

// survivors are the mutants that no test notices, of those that are asked for.
func survivors(mutants []mutant, learned []*test, only *regexp.Regexp, jobs int) (left []mutant) {
	mutants = slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !only.MatchString(m.name) })
	survived := make([]bool, len(mutants))
	atOnce(jobs, len(mutants), func(i int) {
		if survived[i] = !noticed(mutants[i].number, learned); survived[i] {
			fmt.Fprintf(os.Stderr, "no test notices %s\n", mutants[i].name)
		}
	})
	for i, m := range mutants {
		if survived[i] {
			left = append(left, m)
		}
	}
	return left
}

// noticed reports whether a test fails with a mutant, or does not end: of those that it
// changes anything for, a few fast ones, then more.
func noticed(number int, learned []*test) bool {
	var meet []*test
	for _, t := range learned {
		if t.met[fmt.Sprint(number)] {
			meet = append(meet, t)
		}
	}
	for size := 3; len(meet) > 0; size *= 3 {
		some := meet[:min(size, len(meet))]
		meet = meet[len(some):]
		byPackage := map[string][]*test{}
		for _, t := range some {
			byPackage[t.binary] = append(byPackage[t.binary], t)
		}
		for _, tests := range byPackage {
			if fails(number, tests) {
				return true
			}
		}
	}
	return false
}

// patience is how long tests may take with a mutant, which may not end, beside ten times of
// what they need.
const patience = 4 * time.Minute

// fails reports whether one of the tests fails with a mutant, or does not end.
func fails(number int, of []*test) bool {
	patience := patience
	for _, t := range of {
		patience += 10 * t.took
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return command(ctx, of, fmt.Sprintf("%s=%d", variable, number)).Run() != nil
}

// atOnce calls do for 0 to n-1, so many at once.
func atOnce(jobs, n int, do func(int)) {
	var running sync.WaitGroup
	turn := make(chan struct{}, max(1, jobs))
	for i := range n {
		turn <- struct{}{}
		running.Go(func() {
			defer func() { <-turn }()
			do(i)
		})
	}
	running.Wait()
}
