package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"tollgate/wasm"
	"tollgate/wasm/abi"
)

func (a *app) ruleTestCommand() *cobra.Command {
	verbose := false
	c := &cobra.Command{
		Use:   "test [RULE…]",
		Short: "Run golden cases",
		Long: `Run golden cases: inputs with the outcome that a rule must have. They stand in
golden.json beside it, or were published with it. Without RULE, the rules that
this binary brings along are tested.

` + takenRules + `

Each case runs on a new instance of the module and, in several orders, on used
ones, for a module must not remember its last call; compiled to machine code, by
an interpreter, and by V8 when there is Node.js. All must agree in every byte
and in the fuel that they take. Compiling is done in a process of its own, so
that a module cannot hang or flood this one.`,
		Example: `  tollgate rule test
  tollgate rule test my_fee --verbose`,
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := a.rulesToTest(cmd.Context(), a.ruleReader(cmd), args)
			if err != nil {
				return err
			}
			examine, failed := newExaminer(defaultLimits), 0
			for _, r := range rules {
				ok, err := a.testRule(cmd.Context(), examine, r, verbose)
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

func (a *app) rulesToTest(ctx context.Context, reader *ruleReader, args []string) ([]*ruleSource, error) {
	var rules []*ruleSource
	if len(args) == 0 {
		all, err := wasm.Shipped()
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			source, err := shippedSource(r)
			if err != nil {
				return nil, err
			}
			rules = append(rules, source)
		}
	}
	for _, arg := range args {
		r, err := reader.read(ctx, arg)
		if err != nil {
			return nil, err
		}
		if err := reader.golden(ctx, r); err != nil {
			return nil, err
		}
		if len(r.golden) == 0 {
			return nil, usageError(fmt.Errorf("%s has no golden cases: there is no golden.json beside it", arg))
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// testRule tests one rule and prints how it went.
func (a *app) testRule(ctx context.Context, examine wasm.Examiner, r *ruleSource, verbose bool) (ok bool, err error) {
	report, err := examine(ctx, r.citation, r.module, r.golden)
	var invalid *wasm.InvalidError
	if err == nil {
		var engine string
		if engine, err = a.testInNode(ctx, r, &report); err == nil {
			if verbose {
				if err := a.printCases(r, &report); err != nil {
					return false, err
				}
			}
			_, err := fmt.Fprintf(a.stdout, "ok    %s  %d cases: compiled, interpreted, %s; at most %d of %d units of fuel\n",
				r.name, len(r.golden), engine, report.MaxFuel, abi.FuelPerCall)
			return true, err
		}
	}
	if !errors.As(err, &invalid) {
		return false, fmt.Errorf("%s: %w", r.name, err)
	}
	problems := invalid.Cases
	if len(problems) == 0 {
		problems = []string{invalid.Reason}
	}
	for _, p := range problems {
		fmt.Fprintf(a.stdout, "FAIL  %s  %s\n", r.name, printable(p))
	}
	return false, nil
}

func (a *app) printCases(r *ruleSource, report *wasm.Report) error {
	text := &table{right: []int{0}}
	text.row("FUEL", "CASE", "OUTCOME")
	for i, c := range r.golden {
		text.row(strconv.FormatInt(report.Cases[i].Fuel, 10), c.Name(), c.Outcome())
	}
	return a.print(text)
}
