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
	verbose := false
	c := &cobra.Command{
		Use:   "test [RULE…]",
		Short: "Run golden cases",
		Long: `Run golden cases: inputs with the outcome that a rule must have. They stand in
golden.json beside it, or were published with it. Without RULE, the rules that
this binary brings along are tested.

` + source.TakenRules + `

Each case runs on a new instance of the module and, in several orders, on used
ones, for a module must not remember its last call; compiled to machine code, by
an interpreter, and by V8 when there is Node.js. All must agree in every byte
and in the fuel that they take. Compiling is done in a process of its own, so
that a module cannot hang or flood this one.`,
		Example: `  tollgate rule test
  tollgate rule test my_fee --verbose`,
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := rulesToTest(cmd.Context(), a, source.NewReader(a, cmd), args)
			if err != nil {
				return err
			}
			examine, failed := examine.New(examine.DefaultLimits), 0
			for _, r := range rules {
				ok, err := testRule(cmd.Context(), a, examine, r, verbose)
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
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print each case with its fuel")
	return c
}

func rulesToTest(ctx context.Context, a *cli.App, reader *source.Reader, args []string) ([]*source.Rule, error) {
	var rules []*source.Rule
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
		if len(r.Golden) == 0 {
			return nil, cli.UsageError(fmt.Errorf("%s has no golden cases: there is no golden.json beside it", arg))
		}
		rules = append(rules, r)
	}
	return rules, nil
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
