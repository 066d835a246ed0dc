package client

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

var paymentFlags = append(cli.QueryFlags{
	{"status", "status", "statuses separated by commas, such as authorized or captured"},
	{"account", "merchant_account_id", "merchant account"},
	{"payee", "payee", "payee"},
	{"currency", "currency", "currency"},
	{"reference", "reference", "reference"},
	{"created-after", "created_after", "RFC 3339 time"},
	{"created-before", "created_before", "RFC 3339 time"},
	{"order", "order", "asc or desc"},
}, cli.PageFlags...)

func paymentsCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:   "payments",
		Short: "Search payments",
		Example: `  tollgate payments
  tollgate payments --status authorized,partially_captured
  tollgate payments --payee shop.example --created-after 2026-11-21T00:00:00Z`,
	}, "/v1/payments", paymentFlags, []string{"CREATED", "STATUS", "AMOUNT", "CAPTURED", "", "PAYEE", "REFERENCE", "PAYMENT"}, []int{2, 3},
		func(t *cli.Table, p *tollgate.Payment) string {
			t.Row(p.CreatedAt.String(), string(p.Status), p.Amount.String(), p.AmountCaptured.String(), string(p.Currency), string(p.Payee), cli.Deref(p.Reference), p.ID)
			return p.ID
		})
}

func accountsCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:     "accounts",
		Short:   "List the merchant accounts that your grant covers",
		Example: "  tollgate accounts",
	}, "/v1/merchant-accounts", cli.PageFlags, []string{"NAME", "STATUS", "CURRENCIES", "CUTOFF", "ACCOUNT"}, nil,
		func(t *cli.Table, m *tollgate.MerchantAccount) string {
			t.Row(m.Name, m.Status, abridged(m.Currencies), m.Cutoff.CutoffTime+" "+m.Cutoff.TimeZone, m.ID)
			return m.ID
		})
}

// abridged is a list of which a line of a table has room for the first four.
func abridged[T ~string](list []T) string {
	if more := len(list) - 4; more > 1 {
		return fmt.Sprintf("%s and %d more", cli.Joined(list[:4], ""), more)
	}
	return cli.Joined(list, "")
}

func exportsCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:     "exports",
		Short:   "List exports: which are under way, which files there are",
		Example: "  tollgate exports\n  tollgate export --id $EXPORT -o payments.csv",
	}, "/v1/exports", cli.PageFlags, []string{"CREATED", "DATASET", "FORMAT", "STATUS", "ROWS", "EXPORT"}, []int{4},
		func(t *cli.Table, e *tollgate.Export) string {
			t.Row(e.CreatedAt.String(), string(e.Dataset), e.Format, string(e.Status), fmt.Sprint(e.Progress.RowsDone), e.ID)
			return e.ID
		})
}

func eventCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:   "event ID",
		Short: "Show an event as it was frozen",
		Long:  "Show an event as it was frozen when it happened: the JSON that webhooks deliver. Events are kept 30 days.",
		Example: `  tollgate event $EVENT
  tollgate events --quiet --limit 1 | xargs tollgate event`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/events?order=desc"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		body, err := api.Get(ctx, "/v1/events/"+url.PathEscape(args[0]), nil)
		if err != nil {
			return err
		}
		api.JSON = api.JSON || !api.Quiet // it has no other form
		return api.Show(body, args[0], nil)
	})
}
