package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func payoutTable(p *tollgate.PayoutObject) *cli.Table {
	t := &cli.Table{}
	t.Row("payout", p.ID)
	t.Row("status", string(p.Status))
	t.Row("amount", cli.PriceText(p.Amount))
	t.Row("captured", p.AmountCaptured.String())
	t.Row("fees", p.FeeTotal.String())
	t.Row("captures", strconv.FormatInt(p.CaptureCount, 10))
	t.Row("paid on", p.PayoutDate.String())
	t.Row("account", p.MerchantAccountID)
	if p.HeldReason != nil {
		t.Row("held", "because "+*p.HeldReason)
	}
	if p.FailureReason != nil {
		t.Row("failed", *p.FailureReason)
	}
	if p.Reference != nil {
		t.Row("reference", *p.Reference)
	}
	return t
}

var payoutFlags = cli.QueryFlags{
	{"status", "status", "statuses separated by commas: pending, held, in_transit, paid, failed"},
	{"account", "merchant_account_id", "merchant account"},
	{"currency", "currency", "currency"},
	{"created-after", "created_after", "RFC 3339 time"},
	{"created-before", "created_before", "RFC 3339 time"},
	{"order", "order", "asc or desc"},
	{"limit", "limit", "1 to 100"},
	{"cursor", "cursor", "where the page before ended"},
}

func payoutCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "payout",
		Short: "Show payouts, and let go what is held",
		Long: `Show what accounts are paid. A payout is held when its transactions do not add
up to it. Nobody is asked to pay it until you release it.`,
		Example: `  tollgate payout list --status held
  tollgate payout show $PAYOUT
  tollgate payout release $PAYOUT --reason 'compared with the ledger'`,
	}
	c.AddCommand(payoutListCommand(a), payoutShowCommand(a), payoutReleaseCommand(a))
	return c
}

func payoutListCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:     "list",
		Short:   "Search payouts",
		Example: "  tollgate payout list\n  tollgate payout list --status held,failed",
	}, "/v1/payouts", payoutFlags, []string{"PAID ON", "STATUS", "AMOUNT", "", "CAPTURES", "ACCOUNT", "PAYOUT"}, []int{2},
		func(t *cli.Table, p *tollgate.PayoutObject) string {
			t.Row(p.PayoutDate.String(), string(p.Status), p.Amount.String(), string(p.Currency), strconv.FormatInt(p.CaptureCount, 10), p.MerchantAccountID, p.ID)
			return p.ID
		})
}

// showPayout prints the answer of an endpoint that answers with a payout.
func showPayout(c *cli.Client) func(cli.Raw, error) error {
	return cli.Answered(c, func(p *tollgate.PayoutObject) (string, *cli.Table) { return p.ID, payoutTable(p) })
}

func payoutPath(id, below string) string { return "/v1/payouts/" + url.PathEscape(id) + below }

func payoutShowCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               "show PAYOUT",
		Short:             "Show a payout",
		Example:           "  tollgate payout show $PAYOUT",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/payouts"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		return showPayout(api)(api.Get(ctx, payoutPath(args[0], ""), nil))
	})
}

func payoutReleaseCommand(a *cli.App) *cobra.Command {
	reason, key := "", ""
	c := &cobra.Command{
		Use:   "release PAYOUT --reason TEXT",
		Short: "Let a held payout go",
		Long: `Let a held payout go. Tollgate recomputes its sum and compares every transaction
with the record of its capture. The payout then pays that sum. If a transaction
cannot be read, or contradicts its capture, the payout stays held and the error
names the transaction.`,
		Example:           "  tollgate payout release $PAYOUT --reason 'compared with the ledger'",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/payouts?status=held"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		return showPayout(api)(api.Post(ctx, payoutPath(args[0], "/release"), map[string]string{"reason": reason}, a.IdempotencyKey(key)))
	})
	c.Flags().StringVar(&reason, "reason", "", "why it may go, at most 255 characters; kept in the audit record")
	_ = c.MarkFlagRequired("reason")
	cli.KeyFlag(c, &key)
	return c
}
