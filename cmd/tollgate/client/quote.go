package client

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func quoteCommand(a *cli.App) *cobra.Command {
	account := ""
	c := &cobra.Command{
		Use:   "quote AMOUNT CURRENCY PAYEE",
		Short: "Show the fees and the decision that a payment would have",
		Long:  "Show the fee lines and the perimeter's decision that a payment would have. Nothing is submitted.",
		Example: `  tollgate quote 100.00 EUR shop.example
  tollgate quote 100.00 EUR deny.test --json`,
		Args: cobra.ExactArgs(3),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		input := map[string]string{"amount": args[0], "currency": args[1], "payee": args[2]}
		if account = accountOf(a, c, account); account != "" {
			input["merchant_account_id"] = account
		}
		body, q, err := cli.Read[tollgate.Quote](api.Post(ctx, "/v1/quotes", map[string]any{"tool": "quote_ticket", "input": input}, ""))
		if err != nil {
			return err
		}
		if api.JSON || api.Quiet {
			return api.Show(body, q.Digest, nil)
		}
		fees := &cli.Table{Right: []int{1}}
		fees.Row("FEE", "AMOUNT", "RULE")
		for _, l := range q.Lines {
			fees.Row(l.Label, l.Amount.String(), l.Rule.String())
		}
		fees.Row("Total", q.Total.String(), string(q.Currency))
		if err := a.Print(fees); err != nil {
			return err
		}
		text := &cli.Table{}
		text.Row("decision", cli.DecisionText(tollgate.PerimeterDecision(q.Perimeter)))
		text.Row("rule set", fmt.Sprintf("%s@%d", q.RuleSet.ID, q.RuleSet.Version))
		text.Row("digest", q.Digest)
		if q.AsOf != 0 {
			text.Row("as of", q.AsOf.String()+" (Redis is away; the payment checks everything again)")
		}
		fmt.Fprintln(a.Stdout)
		return a.Print(text)
	})
	c.Flags().StringVar(&account, "account", "", "short for --merchant-account")
	c.Flags().Lookup("quiet").Usage = "print only the digest of the lines"
	return c
}

// accountOf is the merchant account that a command names: by the short flag,
// the long one or the environment.
func accountOf(a *cli.App, cmd *cobra.Command, short string) string {
	if short != "" {
		return short
	}
	return a.Config(cmd).Text("merchant-account")
}
