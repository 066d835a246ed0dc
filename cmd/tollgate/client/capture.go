package client

import (
	"context"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func captureCommand(a *cli.App) *cobra.Command {
	var reference, key string
	var metadata map[string]string
	final := true
	c := &cobra.Command{
		Use:   "capture PAYMENT [AMOUNT]",
		Short: "Capture an authorized payment, all or a part",
		Long: `Capture an authorized payment: all that is left of it, or AMOUNT. A capture is
final and releases the rest; with --final=false more can follow.`,
		Example: `  tollgate capture $PAYMENT
  tollgate capture $PAYMENT 60.00 --final=false`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteIDs("/v1/payments?status=authorized,partially_captured"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		request := map[string]any{"final_capture": final}
		if len(args) == 2 {
			request["amount"] = args[1]
		}
		if reference != "" {
			request["reference"] = reference
		}
		if len(metadata) > 0 {
			request["metadata"] = metadata
		}
		body, made, err := cli.Read[tollgate.Capture](api.Post(ctx, PaymentPath(args[0], "/captures"), request, a.IdempotencyKey(key)))
		if err != nil {
			return err
		}
		t := &cli.Table{}
		t.Row("capture", made.ID)
		t.Row("amount", cli.PriceText(made.Amount))
		t.Row("fees", made.FeeTotal.String())
		if p := made.Payment; p != nil {
			t.Row("payment", p.ID)
			t.Row("status", string(p.Status))
			t.Row("captured", p.AmountCaptured.String()+" of "+p.Amount.String())
			t.Row("capturable", p.AmountCapturable.String())
			t.Row("released", p.AmountReleased.String())
		}
		return api.Show(body, made.ID, t)
	})
	c.Flags().BoolVar(&final, "final", true, "release what is left after this capture")
	c.Flags().StringVar(&reference, "reference", "", "your own reference, at most 64 characters")
	c.Flags().StringToStringVar(&metadata, "metadata", nil, "key=value, several separated by commas or by repeating the flag")
	cli.KeyFlag(c, &key)
	return c
}
