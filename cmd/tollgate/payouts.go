package main

import (
	"context"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
)

func payoutTable(p *tollgate.PayoutObject) *table {
	t := &table{}
	t.row("payout", p.ID)
	t.row("status", string(p.Status))
	t.row("amount", priceText(p.Amount))
	t.row("captured", p.AmountCaptured.String())
	t.row("fees", p.FeeTotal.String())
	t.row("captures", strconv.FormatInt(p.CaptureCount, 10))
	t.row("paid on", p.PayoutDate.String())
	t.row("account", p.MerchantAccountID)
	if p.HeldReason != nil {
		t.row("held", "because "+*p.HeldReason)
	}
	if p.FailureReason != nil {
		t.row("failed", *p.FailureReason)
	}
	if p.Reference != nil {
		t.row("reference", *p.Reference)
	}
	return t
}

var payoutFlags = queryFlags{
	{"status", "status", "statuses separated by commas: pending, held, in_transit, paid, failed"},
	{"account", "merchant_account_id", "merchant account"},
	{"currency", "currency", "currency"},
	{"created-after", "created_after", "RFC 3339 time"},
	{"created-before", "created_before", "RFC 3339 time"},
	{"order", "order", "asc or desc"},
	{"limit", "limit", "1 to 100"},
	{"cursor", "cursor", "where the page before ended"},
}

func (a *app) payoutCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "payout",
		Short: "Show payouts, and let go what is held",
		Long: `Show what accounts are paid. A payout is held when its transactions do not add
up to it. Nobody is asked to pay it until you release it.`,
		Example: `  tollgate payout list --status held
  tollgate payout show $PAYOUT
  tollgate payout release $PAYOUT --reason 'compared with the ledger'`,
	}
	c.AddCommand(a.payoutListCommand(), a.payoutShowCommand(), a.payoutReleaseCommand())
	return c
}

func (a *app) payoutListCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use:     "list",
		Short:   "Search payouts",
		Example: "  tollgate payout list\n  tollgate payout list --status held,failed",
	}, "/v1/payouts", payoutFlags, []string{"PAID ON", "STATUS", "AMOUNT", "", "CAPTURES", "ACCOUNT", "PAYOUT"}, []int{2},
		func(t *table, p *tollgate.PayoutObject) string {
			t.row(p.PayoutDate.String(), string(p.Status), p.Amount.String(), string(p.Currency), strconv.FormatInt(p.CaptureCount, 10), p.MerchantAccountID, p.ID)
			return p.ID
		})
}

// showPayout prints the answer of an endpoint that answers with a payout.
func (c *client) showPayout(body jsontext.Value) error {
	var p tollgate.PayoutObject
	if err := parse(body, &p); err != nil {
		return err
	}
	return c.show(body, p.ID, payoutTable(&p))
}

func payoutPath(id, below string) string { return "/v1/payouts/" + url.PathEscape(id) + below }

func (a *app) payoutShowCommand() *cobra.Command {
	return a.clientCommand(&cobra.Command{
		Use:     "show PAYOUT",
		Short:   "Show a payout",
		Example: "  tollgate payout show $PAYOUT",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, api *client, args []string) error {
		body, err := api.get(ctx, payoutPath(args[0], ""), nil)
		if err != nil {
			return err
		}
		return api.showPayout(body)
	})
}

func (a *app) payoutReleaseCommand() *cobra.Command {
	reason, key := "", ""
	c := &cobra.Command{
		Use:   "release PAYOUT --reason TEXT",
		Short: "Let a held payout go",
		Long: `Let a held payout go. Tollgate recomputes its sum and compares every transaction
with the record of its capture. The payout then pays that sum. If a transaction
cannot be read, or contradicts its capture, the payout stays held and the error
names the transaction.`,
		Example: "  tollgate payout release $PAYOUT --reason 'compared with the ledger'",
		Args:    cobra.ExactArgs(1),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		body, err := api.post(ctx, payoutPath(args[0], "/release"), map[string]string{"reason": reason}, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		return api.showPayout(body)
	})
	c.Flags().StringVar(&reason, "reason", "", "why it may go, at most 255 characters; kept in the audit record")
	_ = c.MarkFlagRequired("reason")
	keyFlag(c, &key)
	return c
}
