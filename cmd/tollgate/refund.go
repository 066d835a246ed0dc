package main

import (
	"context"

	"github.com/spf13/cobra"

	"tollgate"
)

func (a *app) refundCommand() *cobra.Command {
	reason, key := "", ""
	c := &cobra.Command{
		Use:   "refund PAYMENT [AMOUNT]",
		Short: "Give back what was captured, all or a part",
		Long: `Give back what was captured from a payment: all that is not refunded yet, or
AMOUNT. The payment's fees are not given back; rules that take part in refunds
can charge fees of their own. 'tollgate ticket' shows both.`,
		Example: `  tollgate refund $PAYMENT
  tollgate refund $PAYMENT 20.00 --reason 'one of three was broken'`,
		Args: cobra.RangeArgs(1, 2),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		request := map[string]any{}
		if len(args) == 2 {
			request["amount"] = args[1]
		}
		if reason != "" {
			request["reason"] = reason
		}
		body, err := api.post(ctx, paymentPath(args[0], "/refunds"), request, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		var made tollgate.Refund
		if err := parse(body, &made); err != nil {
			return err
		}
		t := &table{}
		t.row("refund", made.ID)
		t.row("amount", priceText(made.Amount))
		t.row("fees", made.FeeTotal.String())
		if p := made.Payment; p != nil {
			t.row("payment", p.ID)
			t.row("status", string(p.Status))
			t.row("refunded", p.AmountRefunded.String()+" of "+p.AmountCaptured.String())
			t.row("refundable", p.AmountRefundable.String())
		}
		return api.show(body, made.ID, t)
	})
	c.Flags().StringVar(&reason, "reason", "", "why, at most 255 characters")
	keyFlag(c, &key)
	return c
}
