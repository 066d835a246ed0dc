package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
)

// ruleCheckCommand judges a rule before it is published: its module, its golden
// cases, and that it charges in every currency or says why not.
func ruleCheckCommand(a *cli.App) *cobra.Command {
	var currencies, accounts []string
	asJSON := false
	c := &cobra.Command{
		Use:   "check RULE",
		Short: "Check that a rule can be activated",
		Long: `Check a rule before you publish it: the limits of its module, its golden cases,
and that it says what it charges in every currency of your accounts. A rule that
says nothing about a currency makes it free, so the service does not activate it.

A currency is said when the rule charges in it or refuses it. What is free on
purpose is declared: a table says otherwise = "free" or a percentage of "0", the
rule.toml of another module free = ["CHF"] or otherwise = "free". All that is about
payments: refunds may be free in any currency.

` + source.TakenRules + `

The currencies are those of --currencies, or those of --accounts or of all
accounts of the client if TOLLGATE_URL is set, or else all of ISO 4217.`,
		Example: `  tollgate rule check my_fee
  tollgate rule check my_fee --currencies EUR,GBP`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, reader := cmd.Context(), source.NewReader(a, cmd)
			source, err := reader.Read(ctx, args[0])
			if err != nil {
				return err
			}
			if err := reader.Golden(ctx, source); err != nil {
				return err
			}
			wanted, of, err := checkedCurrencies(ctx, a, reader, currencies, accounts, a.Config(cmd).Text("url") != "")
			if err != nil {
				return err
			}
			report, err := examine.New(examine.DefaultLimits)(ctx, source.Citation, source.Module, source.Golden)
			var invalid *wasm.InvalidError
			if errors.As(err, &invalid) {
				return fmt.Errorf("%s: %s", source.Name, cli.Printable(invalid.Reason))
			} else if err != nil {
				return fmt.Errorf("%s: %w", source.Name, err)
			}
			var silent []string
			for _, c := range report.Silent {
				if slices.Contains(wanted, c) {
					silent = append(silent, string(c))
				}
			}
			if len(silent) > 0 {
				return fmt.Errorf("%s charges nothing in %d currencies of %s and does not say that this is meant: %s\n"+
					"Give each of them a fee, or say otherwise = \"refuse\" or otherwise = \"free\"", source.Name, len(silent), of, strings.Join(silent, ", "))
			}
			if asJSON {
				return a.PrintJSON(report)
			}
			return a.Print(checkedTable(source, &report, fmt.Sprintf("%d currencies of %s", len(wanted), of)))
		},
	}
	c.Flags().StringSliceVar(&currencies, "currencies", nil, "currencies, separated by commas")
	c.Flags().StringSliceVar(&accounts, "accounts", nil, "merchant accounts, separated by commas")
	c.Flags().BoolVar(&asJSON, "json", false, "print what the examination found as JSON")
	c.MarkFlagsMutuallyExclusive("currencies", "accounts")
	return c
}

// checkedTable says what was found good, in which currencies.
func checkedTable(source *source.Rule, report *wasm.Report, currencies string) *cli.Table {
	text := &cli.Table{}
	text.Row("ok", source.Name, fmt.Sprintf("%d golden cases; it says what it charges in the %s", len(source.Golden), currencies))
	if report.Refunds {
		refunds := slices.DeleteFunc(slices.Clone(source.Golden), func(c wasm.GoldenCase) bool { return c.Kind != wasm.GoldenRefund })
		text.Row("", "", fmt.Sprintf("it takes part in refunds: %d of the golden cases", len(refunds)))
	}
	return text
}

// checkedCurrencies are those that a rule is to say something about, and whose
// they are.
func checkedCurrencies(ctx context.Context, a *cli.App, reader *source.Reader, named, accounts []string, connected bool) (list []tollgate.Currency, of string, err error) {
	switch {
	case len(named) > 0:
		for _, text := range named {
			c, err := tollgate.ParseCurrency(text)
			if err != nil {
				return nil, "", cli.UsageError(fmt.Errorf("--currencies: %w", err))
			}
			list = append(list, c)
		}
		of = "--currencies"
	case len(accounts) > 0 || connected:
		api, err := reader.Service()
		if err != nil {
			return nil, "", err
		}
		all, err := api.Accounts(ctx, accounts)
		if err != nil {
			return nil, "", err
		}
		for _, a := range all {
			list = append(list, a.Currencies...)
		}
		of = "the accounts"
	default:
		list, of = tollgate.Currencies(), "ISO 4217"
	}
	slices.Sort(list)
	return slices.Compact(list), of, nil
}
