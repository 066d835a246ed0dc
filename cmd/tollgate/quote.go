package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tollgate"
)

func (a *app) quoteCommand() *cobra.Command {
	account := ""
	c := &cobra.Command{
		Use:   "quote AMOUNT CURRENCY PAYEE",
		Short: "Show the fees and the decision that a payment would have",
		Long:  "Show the fee lines and the perimeter's decision that a payment would have. Nothing is submitted.",
		Example: `  tollgate quote 100.00 EUR shop.example
  tollgate quote 100.00 EUR deny.test --json`,
		Args: cobra.ExactArgs(3),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		input := map[string]string{"amount": args[0], "currency": args[1], "payee": args[2]}
		if account = a.account(c, account); account != "" {
			input["merchant_account_id"] = account
		}
		body, err := api.post(ctx, "/v1/quotes", map[string]any{"tool": "quote_ticket", "input": input}, "")
		if err != nil {
			return err
		}
		var q tollgate.Quote
		if err := parse(body, &q); err != nil {
			return err
		}
		if api.json || api.quiet {
			return api.show(body, q.Digest, nil)
		}
		fees := &table{right: []int{1}}
		fees.row("FEE", "AMOUNT", "RULE")
		for _, l := range q.Lines {
			fees.row(l.Label, l.Amount.String(), l.Rule.String())
		}
		fees.row("Total", q.Total.String(), string(q.Currency))
		if err := a.print(fees); err != nil {
			return err
		}
		text := &table{}
		text.row("decision", decisionText(tollgate.PerimeterDecision(q.Perimeter)))
		text.row("rule set", fmt.Sprintf("%s@%d", q.RuleSet.ID, q.RuleSet.Version))
		text.row("digest", q.Digest)
		if q.AsOf != 0 {
			text.row("as of", q.AsOf.String()+" (Redis is away; the payment checks everything again)")
		}
		fmt.Fprintln(a.stdout)
		return a.print(text)
	})
	c.Flags().StringVar(&account, "account", "", "short for --merchant-account")
	c.Flags().Lookup("quiet").Usage = "print only the digest of the lines"
	return c
}

// account is the merchant account that a command names: by the short flag,
// the long one or the environment.
func (a *app) account(cmd *cobra.Command, short string) string {
	if short != "" {
		return short
	}
	return a.config(cmd).text("merchant-account")
}
