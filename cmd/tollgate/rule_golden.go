package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/wasm"
)

func (a *app) ruleTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test [DIRECTORY…]",
		Short: "Run golden cases",
		Long: `Run golden cases: inputs with the outcome that a rule must have. A directory holds
rule.toml or rule.wasm, and golden.json; without one, the rules that this binary
brings along are tested. Each case runs on a new instance of the module and,
in another order, on used ones, for a module must not remember its last call.`,
		Example: `  tollgate rule test
  tollgate rule test rules/my_fee/v1`,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			var rules []wasm.ShippedRule
			if len(dirs) == 0 {
				var err error
				if rules, err = wasm.Shipped(); err != nil {
					return err
				}
			}
			for _, dir := range dirs {
				r, err := readRule(dir)
				if err != nil {
					return usageError(err)
				}
				rules = append(rules, r)
			}
			failed := 0
			for i, r := range rules {
				name := r.Citation.String()
				if len(dirs) > 0 {
					name = dirs[i]
				}
				problems, err := golden(cmd.Context(), r)
				if err != nil {
					return usageError(fmt.Errorf("%s: %w", name, err))
				}
				for _, p := range problems {
					fmt.Fprintf(a.stdout, "FAIL  %s  %s\n", name, printable(p.Error()))
				}
				if len(problems) > 0 {
					failed++
				} else {
					fmt.Fprintf(a.stdout, "ok    %s  %d cases\n", name, len(r.Golden))
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d rules failed", failed, len(rules))
			}
			return nil
		},
	}
}

// underTest is the citation of a rule that has none yet.
var underTest = tollgate.Citation{Name: "under_test", Version: 1}

func readRule(dir string) (wasm.ShippedRule, error) {
	r := wasm.ShippedRule{Citation: underTest}
	module, err := os.ReadFile(filepath.Join(dir, "rule.wasm"))
	if errors.Is(err, os.ErrNotExist) {
		var source []byte
		if source, err = os.ReadFile(filepath.Join(dir, "rule.toml")); err != nil {
			return r, fmt.Errorf("%s holds neither rule.wasm nor rule.toml", dir)
		}
		module, _, err = wasm.Build(source)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", dir, err)
	}
	r.Module = module
	cases, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(cases, &r.Golden, json.RejectUnknownMembers(true)); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, "golden.json"), err)
	}
	if len(r.Golden) == 0 {
		return r, fmt.Errorf("%s has no cases", filepath.Join(dir, "golden.json"))
	}
	return r, nil
}

// golden runs a rule's cases and returns those that do not hold.
func golden(ctx context.Context, r wasm.ShippedRule) ([]error, error) {
	var problems []error
	backwards := slices.Clone(r.Golden)
	slices.Reverse(backwards)
	for _, c := range r.Golden { // each on an engine, hence an instance, of its own
		if err := runCases(ctx, r, []wasm.GoldenCase{c}, &problems); err != nil {
			return nil, err
		}
	}
	if len(problems) == 0 {
		if err := runCases(ctx, r, slices.Concat(r.Golden, backwards), &problems); err != nil {
			return nil, err
		}
	}
	return problems, nil
}

func runCases(ctx context.Context, r wasm.ShippedRule, cases []wasm.GoldenCase, problems *[]error) error {
	engine, err := wasm.NewEngine(ctx)
	if err != nil {
		return err
	}
	defer engine.Close(context.WithoutCancel(ctx))
	if err := engine.Load(ctx, r.Citation, r.Module); err != nil {
		return err
	}
	for _, c := range cases {
		if err := holds(engine, r.Citation, c); err != nil {
			*problems = append(*problems, fmt.Errorf("%s %s %s: %w", c.Amount, c.Currency, c.Payee, err))
		}
	}
	return nil
}

// holds runs one case.
func holds(engine *wasm.Engine, rule tollgate.Citation, c wasm.GoldenCase) error {
	amount, err := tollgate.ParseMoney(c.Amount, c.Currency)
	if err != nil {
		return err
	}
	lines, err := engine.Quote(nil, []tollgate.Citation{rule}, tollgate.PricingInput{Amount: amount, Payee: c.Payee})
	var got wasm.GoldenCase
	var e *tollgate.Error
	switch {
	case errors.As(err, &e) && e.Code == tollgate.CodeRuleRejected:
		got.Refused = e.Message
	case errors.As(err, &e) && e.Code == tollgate.CodeRuleFailed:
		got.Failed = true
	case err != nil:
		return err
	}
	for _, l := range lines {
		got.Lines = append(got.Lines, wasm.GoldenLine{Label: l.Label, Amount: l.Amount.String()})
	}
	if got.Refused != c.Refused || got.Failed != c.Failed || !slices.Equal(got.Lines, c.Lines) {
		return fmt.Errorf("%s, want %s", outcome(got), outcome(c))
	}
	return nil
}

func outcome(c wasm.GoldenCase) string {
	switch {
	case c.Failed:
		return "a failure"
	case c.Refused != "":
		return fmt.Sprintf("the refusal %q", c.Refused)
	case len(c.Lines) == 0:
		return "no line"
	}
	text := ""
	for i, l := range c.Lines {
		if i > 0 {
			text += " + "
		}
		text += l.Amount + " (" + l.Label + ")"
	}
	return text
}
