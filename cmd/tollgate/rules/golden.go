package rules

import (
	"context"
	"errors"
	"fmt"
	"strconv"

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
			for i, r := range rules {
				if f.update {
					if err := update(cmd.Context(), a, examine, r, f.before[i]); err != nil {
						return err
					}
				}
				ok, err := testRule(cmd.Context(), a, examine, r, f.verbose)
				if err != nil {
					return err
				}
				if !ok {
					failed++
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
	return c
}

// testFlags are what `rule test` is told.
type testFlags struct {
	verbose, update bool
	cases           string
	before          [][]wasm.GoldenCase // those that were there, of each rule
}

// update examines a rule without its cases, and rewrites these.
func update(ctx context.Context, a *cli.App, examiner wasm.Examiner, r *source.Rule, before []wasm.GoldenCase) error {
	if _, err := examiner(ctx, r.Citation, r.Module, nil); err != nil {
		return examine.RuleProblem(r.Name, err)
	}
	return updateGolden(ctx, a, r, before)
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

// testRule tests one rule and prints how it went.
func testRule(ctx context.Context, a *cli.App, examine wasm.Examiner, r *source.Rule, verbose bool) (ok bool, err error) {
	report, err := examine(ctx, r.Citation, r.Module, r.Golden)
	var invalid *wasm.InvalidError
	if err == nil {
		var engine string
		if engine, err = testInNode(ctx, a, r, &report); err == nil {
			if verbose {
				if err := printCases(a, r, &report); err != nil {
					return false, err
				}
			}
			_, err := fmt.Fprintf(a.Stdout, "ok    %s  %d cases: compiled, interpreted, %s; at most %d of %d units of fuel\n",
				r.Name, len(r.Golden), engine, report.MaxFuel, abi.FuelPerCall)
			return true, err
		}
	}
	if !errors.As(err, &invalid) {
		return false, fmt.Errorf("%s: %w", r.Name, err)
	}
	problems := invalid.Cases
	if len(problems) == 0 {
		problems = []string{invalid.Reason}
	}
	for _, p := range problems {
		fmt.Fprintf(a.Stdout, "FAIL  %s  %s\n", r.Name, cli.Printable(p))
	}
	return false, nil
}

func printCases(a *cli.App, r *source.Rule, report *wasm.Report) error {
	text := &cli.Table{Right: []int{0}}
	text.Row("FUEL", "CASE", "OUTCOME")
	for i, c := range r.Golden {
		text.Row(strconv.FormatInt(report.Cases[i].Fuel, 10), c.Name(), c.Outcome())
	}
	return a.Print(text)
}
