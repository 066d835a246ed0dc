// Command mutants takes checks away, one at a time, and says which of them no test misses.
//
// It writes one copy of the code in which every check can be switched off by an
// environment variable, and builds the tests with it once, by an overlay. Each test first
// runs without a mutant and notes which checks it would see change. Each mutant then gets
// those tests alone, fast ones first. What survives either needs a test, or stands in
// redundant.go with a reason. See `make mutants`.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// target is what is mutated, and the tests that have to notice.
type target struct {
	files []string // patterns, from the module's root
	tests []tests
}

// tests are those of a package whose names match.
type tests struct{ pkg, run string }

// asked are the tests of package handlers that ask whether somebody may.
const asked = "^Test(Tokens|EachRefusal|Refusals|Mistakes|Aliases|Access|Every|Clients|Attacks|Histor|Repeats|Secrets|Conversations|" +
	"Revok|Others|Introspect|Forged|Bound|Proofs|Nonces|WrongClock|TwoAdmin|KeyBeside|AFile|Quotas|Own|OneRequest|EachRequest|" +
	"Replica|Damage|Scopes|Refused|RoundTrips|Ended|References|ReplyLost|Tools|BadInput|Odd|Tenant|Door|Redis|Heads?|Errors|Page)"

// targets are all files whose checks are taken away.
var targets = []target{
	{[]string{"handlers/auth/*.go"}, []tests{{"./handlers/auth", "."}, {"./handlers", asked}}},
	{[]string{"handlers/authorize.go", "handlers/visitor.go", "handlers/tokens.go", "handlers/oauth/*.go", "handlers/refusals.go", "handlers/clients.go", "handlers/grants.go"}, []tests{{"./handlers/oauth", "."}, {"./handlers", asked}}},
}

func main() {
	only := flag.String("only", "", "mutants whose names match this regular expression")
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
	matching, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: -only:", err)
		os.Exit(2)
	}
	unexplained, err := run(matching, *jobs, *only == "" && *in == "")
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if unexplained > 0 {
		os.Exit(1)
	}
}

// run says how many mutants survive that redundant.go does not have; whole, of all targets.
func run(only *regexp.Regexp, jobs int, whole bool) (unexplained int, err error) {
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
		learned, err := t.learn(dir, binaries, jobs)
		if err != nil {
			return 0, err
		}
		left := survivors(mutants, learned, only, jobs)
		for _, m := range mutants {
			seen[m.name] = true
		}
		for _, m := range left {
			if reason, known := redundant[m.name]; known {
				fmt.Printf("redundant %s: %s\n", m.name, reason)
				continue
			}
			unexplained++
			fmt.Printf("SURVIVES  %s\n          %s\n", m.name, m.place)
		}
		fmt.Printf("%s: %d mutants, %d survive\n", strings.Join(t.files, " "), len(mutants), len(left))
	}
	for name := range redundant {
		if whole && !seen[name] {
			fmt.Printf("redundant.go has %s, which is no mutant\n", name)
			unexplained++
		}
	}
	return unexplained, nil
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
