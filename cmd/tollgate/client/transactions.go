package client

import (
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

var transactionFlags = cli.QueryFlags{
	{"status", "status", "statuses separated by commas, such as pending or authorized"},
	{"type", "type", "authorization, capture, fee, release or payout"},
	{"account", "merchant_account_id", "merchant account"},
	{"payment", "payment_id", "payment"},
	{"payout", "payout_id", "payout"},
	{"payee", "payee", "payee"},
	{"currency", "currency", "currency"},
	{"reference", "reference", "reference"},
	{"created-after", "created_after", "RFC 3339 time"},
	{"created-before", "created_before", "RFC 3339 time"},
	{"order", "order", "asc or desc"},
	{"limit", "limit", "1 to 100"},
	{"cursor", "cursor", "where the page before ended"},
}

func transactionsCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:   "transactions",
		Short: "Search transactions",
		Example: `  tollgate transactions
  tollgate transactions --status pending,available --type capture
  tollgate transactions --type payout
  tollgate transactions --payment $PAYMENT --json`,
	}, "/v1/transactions", transactionFlags, []string{"CREATED", "TYPE", "STATUS", "AMOUNT", "", "PAID ON", "PAYMENT OR PAYOUT", "PAYEE", "TRANSACTION"}, []int{3},
		func(t *cli.Table, x *tollgate.Transaction) string {
			of := x.PaymentID
			if of == nil {
				of = x.PayoutID
			}
			t.Row(x.CreatedAt.String(), string(x.Type), x.Status, x.Amount.String(), string(x.Currency), cli.Deref(x.AvailableOn), cli.Deref(of), cli.Deref(x.Payee), x.ID)
			return x.ID
		})
}
