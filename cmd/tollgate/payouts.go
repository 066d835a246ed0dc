package main

import (
	"context"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// payout is what the command line shows of a payout.
type payout struct {
	ID             string  `json:"id"`
	AccountID      string  `json:"merchant_account_id"`
	Status         string  `json:"status"`
	Amount         string  `json:"amount"`
	Currency       string  `json:"currency"`
	AmountCaptured string  `json:"amount_captured"`
	FeeTotal       string  `json:"fee_total"`
	CaptureCount   int64   `json:"capture_count"`
	PayoutDate     string  `json:"payout_date"`
	FailureReason  *string `json:"failure_reason"`
	HeldReason     *string `json:"held_reason"`
	Reference      *string `json:"reference"`
	Damaged        bool    `json:"damaged"`
}

func (p *payout) table() *table {
	t := &table{}
	t.row("payout", p.ID)
	t.row("status", p.Status)
	t.row("amount", p.Amount+" "+p.Currency)
	t.row("captured", p.AmountCaptured)
	t.row("fees", p.FeeTotal)
	t.row("captures", strconv.FormatInt(p.CaptureCount, 10))
	t.row("paid on", p.PayoutDate)
	t.row("account", p.AccountID)
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
	c := &cobra.Command{
		Use:     "list",
		Short:   "Search payouts",
		Example: "  tollgate payout list\n  tollgate payout list --status held,failed",
		Args:    cobra.NoArgs,
	}
	a.clientCommand(c, func(ctx context.Context, api *client, _ []string) error {
		body, err := api.get(ctx, "/v1/payouts", payoutFlags.values(c))
		if err != nil {
			return err
		}
		t := &table{right: []int{2}}
		t.row("PAID ON", "STATUS", "AMOUNT", "", "CAPTURES", "ACCOUNT", "PAYOUT")
		return showPage(api, body, t, func(p *payout) string {
			if p.Damaged {
				t.row("-", "damaged", "-", "-", "-", "-", p.ID)
				return p.ID
			}
			t.row(p.PayoutDate, p.Status, p.Amount, p.Currency, strconv.FormatInt(p.CaptureCount, 10), p.AccountID, p.ID)
			return p.ID
		})
	})
	payoutFlags.bind(c)
	c.Flags().Lookup("quiet").Usage = "print only the ids"
	return c
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
		var p payout
		if err := parse(body, &p); err != nil {
			return err
		}
		return api.show(body, p.ID, p.table())
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
		var p payout
		if err := parse(body, &p); err != nil {
			return err
		}
		return api.show(body, p.ID, p.table())
	})
	c.Flags().StringVar(&reason, "reason", "", "why it may go, at most 255 characters; kept in the audit record")
	_ = c.MarkFlagRequired("reason")
	keyFlag(c, &key)
	return c
}
