package client

import (
	"context"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

func payCommand(a *cli.App) *cobra.Command {
	var account, reference, description, key string
	var metadata map[string]string
	automatic := false
	c := &cobra.Command{
		Use:   "pay AMOUNT CURRENCY PAYEE",
		Short: "Make a payment",
		Long: `Make a payment. It is authorized, to be captured later, or with --automatic
captured at once. A payment that the perimeter denies is kept as declined; the
command then says why and exits with 1.`,
		Example: `  tollgate pay 100.00 EUR shop.example
  tollgate pay 100.00 EUR shop.example --automatic --reference order-17
  PAYMENT=$(tollgate pay 100.00 EUR shop.example --quiet)`,
		Args: cobra.ExactArgs(3),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		request := map[string]any{"amount": args[0], "currency": args[1], "payee": args[2]}
		for name, value := range map[string]string{
			"merchant_account_id": accountOf(a, c, account), "reference": reference, "description": description,
		} {
			if value != "" {
				request[name] = value
			}
		}
		if len(metadata) > 0 {
			request["metadata"] = metadata
		}
		if automatic {
			request["capture_method"] = "automatic"
		}
		return showPayment(api)(api.Post(ctx, "/v1/payments", request, a.IdempotencyKey(key)))
	})
	c.Flags().StringVar(&account, "account", "", "short for --merchant-account")
	c.Flags().BoolVar(&automatic, "automatic", false, "capture all of it at once")
	c.Flags().StringVar(&reference, "reference", "", "your own reference, at most 64 characters")
	c.Flags().StringVar(&description, "description", "", "at most 255 characters")
	c.Flags().StringToStringVar(&metadata, "metadata", nil, "key=value, several separated by commas or by repeating the flag")
	cli.KeyFlag(c, &key)
	return c
}
