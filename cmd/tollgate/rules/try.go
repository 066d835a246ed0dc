package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
	"tollgate/wasm/abi"
)

// tried is what rule try prints, and its JSON.
type tried struct {
	Rule    string             `json:"rule"`
	SHA256  string             `json:"sha256"` // of the module
	Lines   []tollgate.FeeLine `json:"lines"`
	Total   string             `json:"total"`
	Working []string           `json:"working"` // of a table
	Refused string             `json:"refused,omitempty"`
	Failed  string             `json:"failed,omitempty"`
	Fuel    int64              `json:"fuel"`
	Digest  string             `json:"digest"` // of the lines, as a ticket keeps it
}

func ruleTryCommand(a *cli.App) *cobra.Command {
	var amount, currency, payee string
	refund, asJSON := false, false
	c := &cobra.Command{
		Use:   "try RULE --amount AMOUNT --currency CODE",
		Short: "Price one payment with a rule, and show how the fee is computed",
		Long: `Price one payment with a rule on this machine. You see each fee line, how a table
computes it, the fuel that the module takes, and the digest of the lines.

` + source.TakenRules,
		Example: `  tollgate rule try my_fee --amount 100.00 --currency EUR --payee shop.example
  tollgate rule try rule:card_fee@v2 --amount 100.00 --currency EUR`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := wasm.GoldenCase{Amount: amount, Currency: tollgate.Currency(currency), Payee: payee}
			if refund {
				in.Kind = wasm.GoldenRefund
			}
			input, err := in.Input()
			if err != nil {
				return cli.UsageError(inputFault(err))
			}
			rule, err := source.NewReader(a, cmd).Read(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := examine.New(examine.DefaultLimits)(cmd.Context(), rule.Citation, rule.Module, nil); err != nil {
				return examine.RuleProblem(args[0], err)
			}
			t, err := try(cmd.Context(), rule, input)
			if err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(t)
			}
			return t.print(a, input.Amount)
		},
	}
	c.Flags().StringVar(&amount, "amount", "", "what is paid, such as 100.00")
	c.Flags().StringVar(&currency, "currency", "", "in which currency, such as EUR")
	c.Flags().StringVar(&payee, "payee", "shop.example", "who is paid")
	c.Flags().BoolVar(&refund, "refund", false, "price a refund of this amount")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = c.MarkFlagRequired("amount")
	_ = c.MarkFlagRequired("currency")
	return c
}

// inputFault says which flag is wrong.
func inputFault(err error) error {
	e, ok := errors.AsType[*tollgate.Error](err)
	if !ok {
		return err
	}
	flag := "--amount"
	switch e.Code {
	case tollgate.CodeCurrencyUnsupported:
		flag = "--currency"
	case tollgate.CodePayeeInvalid:
		flag = "--payee"
	}
	return fmt.Errorf("%s: %s", flag, e.Message)
}

// try runs a rule that has been examined, on a new instance.
func try(ctx context.Context, rule *source.Rule, in tollgate.PricingInput) (*tried, error) {
	trial, err := wasm.NewTrial(ctx, rule.Citation, rule.Module, false)
	if err != nil {
		return nil, examine.RuleProblem(rule.Name, err)
	}
	defer func() { _ = trial.Close(context.WithoutCancel(ctx)) }()
	o, err := trial.Run(ctx, in, true)
	if err != nil {
		return nil, err
	}
	t := &tried{
		Rule: rule.Name, SHA256: wasm.RefOf(rule.Citation, rule.Module).SHA256, Lines: o.Lines, Refused: o.Refused, Fuel: o.Fuel,
		Total: tollgate.FeeTotal(o.Lines, in.Amount.Currency).String(), Digest: tollgate.LinesSHA256(o.Lines), Working: []string{},
	}
	if o.Failed != nil {
		t.Failed, _, _ = strings.Cut(o.Failed.Error(), "\n")
	}
	if rule.Table != nil {
		if steps, fee, ok := rule.Table.Working(in); ok && fee.String() == t.Total {
			t.Working = steps
		}
	}
	return t, nil
}

func (t *tried) print(a *cli.App, amount tollgate.Money) error {
	head := &cli.Table{}
	head.Row("rule", t.Rule)
	head.Row("sha256", t.SHA256)
	switch {
	case t.Failed != "":
		head.Row("failed", t.Failed)
	case t.Refused != "":
		head.Row("refused", t.Refused)
	}
	lines := &cli.Table{Right: []int{1}}
	lines.Row("FEE", "AMOUNT")
	for _, l := range t.Lines {
		lines.Row(l.Label, l.Amount.String())
	}
	lines.Row("Total", t.Total, string(amount.Currency))
	foot := &cli.Table{}
	for i, step := range t.Working {
		name := ""
		if i == 0 {
			name = "computed"
		}
		foot.Row(name, step)
	}
	if len(t.Working) == 0 && t.Failed == "" && t.Refused == "" {
		foot.Row("computed", "by the module; only tables say how")
	}
	foot.Row("fuel", fmt.Sprintf("%d of %d", t.Fuel, abi.FuelPerCall))
	foot.Row("digest", t.Digest)
	_, err := fmt.Fprintf(a.Stdout, "%s\n%s\n%s", head, lines, foot)
	return err
}
