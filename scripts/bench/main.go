// Command bench measures what Tollgate costs beside yardsticks: the least that the same
// work can cost. Each round runs all benchmarks here and, in turn, at another commit, each
// on a redis-server of its own, so that what else the machine does meets both. A ratio is
// of one run; what is written down is the median of the rounds.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	b := bench{}
	flag.IntVar(&b.rounds, "rounds", 5, "how often each benchmark runs")
	flag.StringVar(&b.base, "base", "", "a commit to measure in turn; none: only what is here")
	out := flag.String("out", "", "a file for the report, as JSON")
	from := flag.String("from", "", "a report to take the table from; nothing is measured")
	page := flag.String("page", "", "a page whose table is replaced")
	flag.Parse()
	if err := b.do(context.Background(), *from, *out, *page); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	rounds int
	base   string
	dir    string // what is built
}

func (b *bench) do(ctx context.Context, from, out, page string) (err error) {
	var r report
	if from != "" {
		r, err = readReport(from)
	} else {
		r, err = b.measure(ctx)
	}
	if err != nil {
		return err
	}
	r.table(os.Stdout)
	if out != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(out, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if page == "" {
		return nil
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(r.into(string(text))), 0o644)
}

func readReport(file string) (r report, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

func (b *bench) measure(ctx context.Context) (r report, err error) {
	if b.dir, err = os.MkdirTemp("", "tollgate-bench-"); err != nil {
		return r, err
	}
	defer os.RemoveAll(b.dir)
	r = report{Day: time.Now().UTC().Format(time.DateOnly), Rounds: b.rounds, Base: b.base}
	if r.Commit, err = output(ctx, ".", "git", "describe", "--always", "--dirty"); err != nil {
		return r, err
	}
	if r.Machine, err = thisMachine(ctx); err != nil {
		return r, err
	}
	trees := []string{"."}
	if b.base != "" {
		tree := filepath.Join(b.dir, "base")
		if err := checkOut(ctx, b.base, tree); err != nil {
			return r, err
		}
		trees = append(trees, tree)
	}
	for i, tree := range trees {
		for _, s := range suites {
			if _, err := output(ctx, tree, "go", "test", "-c", "-o", b.binary(i, s), "./"+s.Package); err != nil {
				return r, err
			}
		}
	}
	rounds := make([][]measured, 2)
	for n := range b.rounds {
		for i, tree := range trees {
			m := measured{}
			for _, s := range suites {
				fmt.Fprintf(os.Stderr, "round %d of %d: %s %s\n", n+1, b.rounds, s.Package, s.Bench)
				text, err := output(ctx, filepath.Join(tree, s.Package), b.binary(i, s), "-test.run=^$", "-test.bench="+s.Bench, "-test.benchtime="+s.Times, "-test.benchmem")
				if err == nil {
					err = m.read(text)
				}
				if err != nil {
					return r, err
				}
			}
			rounds[i] = append(rounds[i], m)
		}
	}
	for _, l := range lines {
		one, err := rowOf(l, rounds[0], rounds[1])
		if err != nil {
			return r, err
		}
		r.Lines = append(r.Lines, one)
	}
	return r, nil
}

// binary is the test binary of a suite, here or at the base.
func (b *bench) binary(tree int, s suite) string {
	return filepath.Join(b.dir, fmt.Sprint(tree)+"-"+strings.ReplaceAll(s.Package, "/", "-")+".test")
}

// checkOut makes a tree of a commit that measures as this one does.
func checkOut(ctx context.Context, commit, tree string) error {
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	archive := tree + ".tar"
	if _, err := output(ctx, ".", "git", "archive", "-o", archive, commit); err != nil {
		return err
	}
	if _, err := output(ctx, tree, "tar", "-xf", archive); err != nil {
		return err
	}
	for _, s := range suites {
		for _, name := range s.Beside {
			file := filepath.Join(s.Package, name)
			if _, err := output(ctx, ".", "cp", "-r", file, filepath.Dir(filepath.Join(tree, file))); err != nil {
				return err
			}
		}
	}
	return nil
}

func thisMachine(ctx context.Context) (m machine, err error) {
	m = machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(text), "model name")
		name, _, _ := strings.Cut(rest, "\n")
		m.Processor = strings.Trim(name, "\t :")
	}
	m.Redis, err = output(ctx, ".", "redis-server", "--version")
	return m, err
}

// output runs a program on a real Redis and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TOLLGATE_TEST_REDIS=server", "CGO_ENABLED=0")
	text, err := cmd.Output()
	if err != nil {
		var said string
		if exit, ok := err.(*exec.ExitError); ok {
			said = string(exit.Stderr)
		}
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, text, said)
	}
	return strings.TrimSpace(string(text)), nil
}
