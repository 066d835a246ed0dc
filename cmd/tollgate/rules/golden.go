package rules

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
	"tollgate/wasm/abi"
)

func ruleTestCommand(a *cli.App) *cobra.Command {
	var f testFlags
	c := &cobra.Command{
		Use:   "test [RULE…]",
		Short: "Run golden cases",
		Long: `Run golden cases: inputs with the outcome that a rule must have. They stand in
golden.json beside it, or were published with it. Without RULE, the rules that
this binary brings along are tested.

` + source.TakenRules + `

A CSV file of cases names its columns in the first row: amount, currency, payee,
kind (payment or refund), and the outcome: fee with label, or lines such as
"Card fee=1.39; Platform fee=0.10", or refused with the message, or failed.

Each case runs on a new instance of the module and, in several orders, on used
ones, for a module must not remember its last call; compiled to machine code, by
an interpreter, and by V8 when there is Node.js. All must agree in every byte
and in the fuel that they take. Compiling is done in a process of its own, so
that a module cannot hang or flood this one.`,
		Example: `  tollgate rule test
  tollgate rule test my_fee --verbose
  tollgate rule test my_fee --update
  tollgate rule test my_fee --cases cases.csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := rulesToTest(cmd.Context(), a, source.NewReader(a, cmd), args, &f)
			if err != nil {
				return err
			}
			examine, failed := examine.New(examine.DefaultLimits), 0
			results := make([]*tested, len(rules))
			for i, r := range rules {
				results[i] = &tested{Rule: r.Name, SHA256: wasm.RefOf(r.Citation, r.Module).SHA256}
				if f.update {
					if err := update(cmd.Context(), examine, r, f.before[i], results[i]); err != nil {
						return err
					}
				}
				if err := testRule(cmd.Context(), examine, r, results[i]); err != nil {
					return err
				}
				if !results[i].OK {
					failed++
				}
				if !f.asJSON {
					if err := results[i].print(a, f.verbose); err != nil {
						return err
					}
				}
			}
			if f.asJSON {
				if err := a.PrintJSON(results); err != nil {
					return err
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d rules failed", failed, len(rules))
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print each case with its fuel")
	c.Flags().BoolVar(&f.update, "update", false, "rewrite golden.json with what the rule does now, and show what is different")
	c.Flags().StringVar(&f.cases, "cases", "", "CSV file of golden cases to run instead; with --update they become golden.json")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON: each rule with its cases")
	c.MarkFlagsMutuallyExclusive("json", "verbose")
	return c
}

// testFlags are what `rule test` is told.
type testFlags struct {
	verbose, update, asJSON bool
	cases                   string
	before                  [][]wasm.GoldenCase // those that were there, of each rule
}

// update examines a rule without its cases, and rewrites these.
func update(ctx context.Context, examiner wasm.Examiner, r *source.Rule, before []wasm.GoldenCase, to *tested) error {
	if _, err := examiner(ctx, r.Citation, r.Module, nil); err != nil {
		return examine.RuleProblem(r.Name, err)
	}
	return updateGolden(ctx, r, before, to)
}

func rulesToTest(ctx context.Context, a *cli.App, reader *source.Reader, args []string, f *testFlags) ([]*source.Rule, error) {
	var rules []*source.Rule
	if len(args) == 0 && (f.update || f.cases != "") {
		return nil, cli.UsageError(errors.New("name the rule whose cases these are, such as 'tollgate rule test my_fee --update'"))
	}
	if len(args) == 0 {
		all, err := wasm.Builtin()
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			source, err := source.BuiltinRule(r)
			if err != nil {
				return nil, err
			}
			rules = append(rules, source)
		}
	}
	for _, arg := range args {
		r, err := reader.Read(ctx, arg)
		if err != nil {
			return nil, err
		}
		if err := reader.Golden(ctx, r); err != nil {
			return nil, err
		}
		f.before = append(f.before, r.Golden)
		if f.cases != "" {
			if r.Golden, err = readCases(a, f.cases, labelOf(r)); err != nil {
				return nil, cli.UsageError(err)
			}
		}
		if len(r.Golden) == 0 {
			return nil, cli.UsageError(fmt.Errorf("%s has no golden cases: there is no golden.json beside it", arg))
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// labelOf is the label of a rule's lines, as far as the rule itself is readable.
func labelOf(r *source.Rule) string {
	if r.Table != nil {
		return r.Table.Label
	}
	if m, err := abi.Parse(r.Module); err == nil {
		return m.Manifest.Label
	}
	return ""
}

// tested is how the golden cases of a rule did, and its JSON.
type tested struct {
	Rule      string       `json:"rule"`
	SHA256    string       `json:"sha256"` // of the module
	OK        bool         `json:"ok"`
	Cases     []testedCase `json:"cases,omitempty"`
	Engines   []string     `json:"engines,omitempty"` // that agree in every byte
	MaxFuel   int64        `json:"max_fuel,omitempty"`
	FuelLimit int64        `json:"fuel_limit"`
	Failures  []string     `json:"failures,omitempty"`

	// Of --update.
	File    string   `json:"file,omitempty"`
	Changes []string `json:"changes,omitempty"` // + and - as in a diff
	golden  int
}

type testedCase struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	Fuel    int64  `json:"fuel"`
}

// testRule runs the golden cases of a rule; an error says that nobody can tell.
func testRule(ctx context.Context, examine wasm.Examiner, r *source.Rule, to *tested) error {
	to.FuelLimit, to.golden = abi.FuelPerCall, len(r.Golden)
	report, err := examine(ctx, r.Citation, r.Module, r.Golden)
	node := ""
	if err == nil {
		node, err = testInNode(ctx, r, &report)
	}
	var invalid *wasm.InvalidError
	if errors.As(err, &invalid) {
		if to.Failures = invalid.Cases; len(to.Failures) == 0 {
			to.Failures = []string{invalid.Reason}
		}
		return nil
	} else if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	to.OK, to.MaxFuel, to.Engines = true, report.MaxFuel, []string{"compiled", "interpreted"}
	if node != "" {
		to.Engines = append(to.Engines, "in V8 (node "+node+")")
	}
	for i, c := range r.Golden {
		to.Cases = append(to.Cases, testedCase{c.Name(), c.Outcome(), report.Cases[i].Fuel})
	}
	return nil
}

func (t *tested) print(a *cli.App, verbose bool) error {
	for _, line := range t.Changes {
		fmt.Fprintln(a.Stdout, cli.Printable(line))
	}
	if t.File != "" && len(t.Changes) == 0 {
		fmt.Fprintf(a.Stdout, "%s stays as it is\n", t.File)
	} else if t.File != "" {
		fmt.Fprintf(a.Stdout, "wrote %s: %d cases\n", t.File, t.golden)
	}
	if verbose && t.OK {
		text := &cli.Table{Right: []int{0}}
		text.Row("FUEL", "CASE", "OUTCOME")
		for _, c := range t.Cases {
			text.Row(strconv.FormatInt(c.Fuel, 10), c.Name, c.Outcome)
		}
		if err := a.Print(text); err != nil {
			return err
		}
	}
	for _, f := range t.Failures {
		fmt.Fprintf(a.Stdout, "FAIL  %s  %s\n", t.Rule, cli.Printable(f))
	}
	if !t.OK {
		return nil
	}
	engines := strings.Join(t.Engines, ", ")
	if len(t.Engines) == 2 {
		engines += ", not in V8 (there is no node)"
	}
	_, err := fmt.Fprintf(a.Stdout, "ok    %s  %d cases: %s; at most %d of %d units of fuel\n", t.Rule, len(t.Cases), engines, t.MaxFuel, t.FuelLimit)
	return err
}
