package client

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func paymentTable(p *tollgate.Payment) *cli.Table {
	t := &cli.Table{}
	t.Row("payment", p.ID)
	t.Row("status", string(p.Status))
	t.Row("amount", cli.PriceText(p.Amount))
	t.Row("payee", cli.PayeeText(p.Payee))
	t.Row("captured", p.AmountCaptured.String())
	t.Row("capturable", p.AmountCapturable.String()+" until "+p.CaptureBefore.String())
	t.Row("released", p.AmountReleased.String())
	if p.AmountRefunded.Minor > 0 {
		t.Row("refunded", p.AmountRefunded.String())
	}
	t.Row("fees", p.FeeTotal.String())
	t.Row("decision", cli.DecisionText(p.Perimeter))
	t.Row("account", p.MerchantAccountID)
	t.Row("ticket", p.TicketID)
	if p.Reference != nil {
		t.Row("reference", *p.Reference)
	}
	if p.Description != nil {
		t.Row("description", *p.Description)
	}
	return t
}

// showPayment prints the answer of an endpoint that answers with a payment.
func showPayment(c *cli.Client) func(cli.Raw, error) error {
	return cli.Answered(c, func(p *tollgate.Payment) (string, *cli.Table) { return p.ID, paymentTable(p) })
}

// PaymentPath is the path of a payment and of what belongs to it.
func PaymentPath(id, below string) string { return "/v1/payments/" + url.PathEscape(id) + below }

func paymentCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               "payment ID",
		Short:             "Show a payment",
		Example:           "  tollgate payment $PAYMENT\n  tollgate payment $PAYMENT --json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/payments"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		return showPayment(api)(api.Get(ctx, PaymentPath(args[0], ""), nil))
	})
}

func cancelCommand(a *cli.App) *cobra.Command {
	reason, key := "", ""
	c := &cobra.Command{
		Use:               "cancel PAYMENT",
		Short:             "Cancel a payment, or release what is left of it",
		Example:           "  tollgate cancel $PAYMENT --reason 'out of stock'",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/payments?status=requires_review,authorized,partially_captured"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		request := map[string]string{}
		if reason != "" {
			request["reason"] = reason
		}
		return showPayment(api)(api.Post(ctx, PaymentPath(args[0], "/cancel"), request, a.IdempotencyKey(key)))
	})
	c.Flags().StringVar(&reason, "reason", "", "why, at most 255 characters")
	cli.KeyFlag(c, &key)
	return c
}

func reviewCommand(a *cli.App) *cobra.Command {
	note, key := "", ""
	c := &cobra.Command{
		Use:     "review PAYMENT approve|reject",
		Short:   "Decide on a payment that waits for a review",
		Example: "  tollgate review $PAYMENT approve --note 'known customer'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || (args[1] != "approve" && args[1] != "reject") {
				return fmt.Errorf("review takes a payment and either approve or reject")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"approve", "reject"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		request := map[string]string{"decision": args[1]}
		if note != "" {
			request["note"] = note
		}
		return showPayment(api)(api.Post(ctx, PaymentPath(args[0], "/reviews"), request, a.IdempotencyKey(key)))
	})
	c.Flags().StringVar(&note, "note", "", "why, at most 255 characters")
	cli.KeyFlag(c, &key)
	return c
}
