package client

import (
	"context"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func refundCommand(a *cli.App) *cobra.Command {
	reason, key := "", ""
	c := &cobra.Command{
		Use:   "refund PAYMENT [AMOUNT]",
		Short: "Give back what was captured, all or a part",
		Long: `Give back what was captured from a payment: all that is not refunded yet, or
AMOUNT. The payment's fees are not given back; rules that take part in refunds
can charge fees of their own. 'tollgate ticket' shows both.`,
		Example: `  tollgate refund $PAYMENT
  tollgate refund $PAYMENT 20.00 --reason 'one of three was broken'`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteIDs("/v1/payments?status=partially_captured,captured"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		request := map[string]any{}
		if len(args) == 2 {
			request["amount"] = args[1]
		}
		if reason != "" {
			request["reason"] = reason
		}
		body, made, err := cli.Read[tollgate.Refund](api.Post(ctx, PaymentPath(args[0], "/refunds"), request, a.IdempotencyKey(key)))
		if err != nil {
			return err
		}
		t := &cli.Table{}
		t.Row("refund", made.ID)
		t.Row("amount", cli.PriceText(made.Amount))
		t.Row("fees", made.FeeTotal.String())
		if p := made.Payment; p != nil {
			t.Row("payment", p.ID)
			t.Row("status", string(p.Status))
			t.Row("refunded", p.AmountRefunded.String()+" of "+p.AmountCaptured.String())
			t.Row("refundable", p.AmountRefundable.String())
		}
		return api.Show(body, made.ID, t)
	})
	c.Flags().StringVar(&reason, "reason", "", "why, at most 255 characters")
	cli.KeyFlag(c, &key)
	return c
}
