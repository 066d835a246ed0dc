package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"tollgate"
)

var paymentFlags = append(queryFlags{
	{"status", "status", "statuses separated by commas, such as authorized or captured"},
	{"account", "merchant_account_id", "merchant account"},
	{"payee", "payee", "payee"},
	{"currency", "currency", "currency"},
	{"reference", "reference", "reference"},
	{"created-after", "created_after", "RFC 3339 time"},
	{"created-before", "created_before", "RFC 3339 time"},
	{"order", "order", "asc or desc"},
}, pageFlags...)

func (a *app) paymentsCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use:   "payments",
		Short: "Search payments",
		Example: `  tollgate payments
  tollgate payments --status authorized,partially_captured
  tollgate payments --payee shop.example --created-after 2026-11-21T00:00:00Z`,
	}, "/v1/payments", paymentFlags, []string{"CREATED", "STATUS", "AMOUNT", "CAPTURED", "", "PAYEE", "REFERENCE", "PAYMENT"}, []int{2, 3},
		func(t *table, p *tollgate.Payment) string {
			t.row(p.CreatedAt.String(), string(p.Status), p.Amount.String(), p.AmountCaptured.String(), string(p.Currency), p.Payee, deref(p.Reference), p.ID)
			return p.ID
		})
}

func (a *app) accountsCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use:     "accounts",
		Short:   "List the merchant accounts that your grant covers",
		Example: "  tollgate accounts",
	}, "/v1/merchant-accounts", pageFlags, []string{"NAME", "STATUS", "CURRENCIES", "CUTOFF", "ACCOUNT"}, nil,
		func(t *table, m *tollgate.MerchantAccount) string {
			t.row(m.Name, m.Status, abridged(m.Currencies), m.Cutoff.CutoffTime+" "+m.Cutoff.TimeZone, m.ID)
			return m.ID
		})
}

// abridged is a list of which a line of a table has room for the first four.
func abridged[T ~string](list []T) string {
	if more := len(list) - 4; more > 1 {
		return fmt.Sprintf("%s and %d more", joined(list[:4], ""), more)
	}
	return joined(list, "")
}

func (a *app) exportsCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use:     "exports",
		Short:   "List exports: which are under way, which files there are",
		Example: "  tollgate exports\n  tollgate export --id $EXPORT -o payments.csv",
	}, "/v1/exports", pageFlags, []string{"CREATED", "DATASET", "FORMAT", "STATUS", "ROWS", "EXPORT"}, []int{4},
		func(t *table, e *tollgate.Export) string {
			t.row(e.CreatedAt.String(), string(e.Dataset), e.Format, string(e.Status), fmt.Sprint(e.Progress.RowsDone), e.ID)
			return e.ID
		})
}

func (a *app) eventCommand() *cobra.Command {
	return a.clientCommand(&cobra.Command{
		Use:   "event ID",
		Short: "Show an event as it was frozen",
		Long:  "Show an event as it was frozen when it happened: the JSON that webhooks deliver. Events are kept 30 days.",
		Example: `  tollgate event $EVENT
  tollgate events --quiet --limit 1 | xargs tollgate event`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, api *client, args []string) error {
		body, err := api.get(ctx, "/v1/events/"+url.PathEscape(args[0]), nil)
		if err != nil {
			return err
		}
		api.json = api.json || !api.quiet // it has no other form
		return api.show(body, args[0], nil)
	})
}
