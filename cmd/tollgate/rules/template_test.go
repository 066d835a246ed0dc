package rules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/cmd/tollgate/examine"
	"tollgate/wasm"
)

// TestTemplates scaffolds a rule in each language, builds it as its README.md
// says, runs its golden cases, and compares it with the table on random
// payments, and on refunds if it takes part in them. A language without its
// compiler is skipped, but not when TOLLGATE_TEST_TEMPLATES is "all", as in CI.
func TestTemplates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	all := os.Getenv("TOLLGATE_TEST_TEMPLATES") == "all"
	compilers := map[string]func() (string, error){
		"c": func() (string, error) {
			if _, err := exec.LookPath("wasm-ld"); err != nil {
				return "", err
			}
			path, err := exec.LookPath("clang")
			return "CLANG=" + path, err
		},
		"rust": findRust,
		"assemblyscript": func() (string, error) {
			path, err := filepath.Abs("../../../scripts/templates/node_modules/.bin/asc")
			if err == nil {
				_, err = os.Stat(path)
			}
			return "ASC=" + path, err
		},
	}
	tables := map[bool][]byte{false: templateModule(t, "table", "", false), true: templateModule(t, "table", "", true)}
	for n := range 2 * (len(languages) - 1) {
		language, refund := languages[1+n/2], n%2 == 1
		t.Run(language+map[bool]string{true: " refund"}[refund], func(t *testing.T) {
			table := tables[refund]
			compiler, err := compilers[language]()
			if err != nil {
				if all {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			module := templateModule(t, language, compiler, refund)
			engine, err := wasm.NewEngine(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Close(ctx)
			expected, err := engine.Load(ctx, examine.UnderTest, table)
			if err != nil {
				t.Fatal(err)
			}
			got, err := engine.Load(ctx, examine.UnderTest, module)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			currencies := []tollgate.Currency{"EUR", "GBP", "USD", "JPY", "KPW", "CHF"}
			for range 20_000 {
				in := tollgate.PricingInput{
					Amount: tollgate.Money{Minor: r.Int64N(int64(1) << (1 + r.IntN(49))), Currency: currencies[r.IntN(len(currencies))]},
					Payee:  "shop.example",
					Refund: refund && r.IntN(2) == 0,
				}
				a, errA := engine.Quote(nil, []tollgate.RuleRef{expected}, in)
				b, errB := engine.Quote(nil, []tollgate.RuleRef{got}, in)
				if !slices.Equal(a, b) || fmt.Sprint(errA) != fmt.Sprint(errB) {
					t.Fatalf("%s %s: %v %v, and the table says %v %v", in.Amount, in.Amount.Currency, b, errB, a, errA)
				}
			}
		})
	}
}

// findRust looks for a compiler with the target: Debian's knows it when its
// package is installed, which one of rustup's beside it may not.
func findRust() (string, error) {
	for _, name := range []string{"rustc", "/usr/bin/rustc"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, "--print", "target-libdir", "--target", "wasm32-unknown-unknown").Output()
		if err != nil {
			continue
		}
		if _, err := os.Stat(strings.TrimSpace(string(out))); err == nil {
			return "RUSTC=" + path, nil
		}
	}
	return "", errors.New("no rustc with the target wasm32-unknown-unknown")
}

// templateModule makes a new rule and returns its module. All rules have the
// name and hence the label in common.
func templateModule(t *testing.T, language, compiler string, refund bool) []byte {
	t.Helper()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "my_fee")
	tollgate := func(args ...string) {
		if code, out, errs := clitest.Inside(ctx, commands, nil, nil, args...); code != 0 {
			t.Fatalf("tollgate %s: exit %d: %s%s", strings.Join(args, " "), code, out, errs)
		}
	}
	tollgate("rule", "new", dir, "--lang", language, fmt.Sprintf("--refund=%t", refund))
	if language != "table" {
		// The Makefile's own steps, less the program that is tested here.
		out, err := exec.Command("make", "-C", dir, "build/rule.wasm", compiler).CombinedOutput()
		if err != nil {
			t.Fatalf("make: %v\n%s", err, out)
		}
	}
	tollgate("rule", "build", dir)
	tollgate("rule", "test", dir)
	tollgate("rule", "check", dir)
	module, err := os.ReadFile(filepath.Join(dir, "rule.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes", language, len(module))
	return module
}

// TestTemplatesAreWhole: each language has a rule, its description and its
// README, and no placeholder is left in any.
func TestTemplatesAreWhole(t *testing.T) {
	for n := range 2 * len(languages) {
		language, refund := languages[n/2], n%2 == 1
		files, err := scaffold("card_fee", language, refund)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			names = append(names, f.name)
			if text := string(f.text); strings.Contains(text, "{{") || strings.Contains(text, "<no value>") || !strings.HasSuffix(text, "\n") {
				t.Errorf("%s: %s:\n%s", language, f.name, text)
			}
		}
		for _, name := range []string{"README.md", "golden.json", "rule.toml"} {
			if !slices.Contains(names, name) {
				t.Errorf("%s has no %s", language, name)
			}
		}
	}
	err := fs.WalkDir(templates, "templates", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(file) != ".tmpl" {
			t.Errorf("%s is no template", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func commands(a *cli.App) []*cobra.Command { return []*cobra.Command{Command(a)} }

func TestMain(m *testing.M) {
	clitest.Main(m, func(a *cli.App) []*cobra.Command { return []*cobra.Command{clitest.Under("rule", examine.Command(a))} })
}
