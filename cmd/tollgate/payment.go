package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// payment is what the command line shows of a payment.
type payment struct {
	ID                string     `json:"id"`
	MerchantAccountID string     `json:"merchant_account_id"`
	Status            string     `json:"status"`
	Amount            string     `json:"amount"`
	Currency          string     `json:"currency"`
	Payee             string     `json:"payee"`
	AmountCapturable  string     `json:"amount_capturable"`
	AmountCaptured    string     `json:"amount_captured"`
	AmountReleased    string     `json:"amount_released"`
	CaptureMethod     string     `json:"capture_method"`
	CaptureBefore     string     `json:"capture_before"`
	FeeTotal          string     `json:"fee_total"`
	TicketID          string     `json:"ticket_id"`
	Perimeter         *perimeter `json:"perimeter"`
	Reference         *string    `json:"reference"`
	Description       *string    `json:"description"`
}

func (p *payment) table() *table {
	t := &table{}
	t.row("payment", p.ID)
	t.row("status", p.Status)
	t.row("amount", p.Amount+" "+p.Currency)
	t.row("payee", p.Payee)
	t.row("captured", p.AmountCaptured)
	t.row("capturable", p.AmountCapturable+" until "+p.CaptureBefore)
	t.row("released", p.AmountReleased)
	t.row("fees", p.FeeTotal)
	t.row("decision", p.Perimeter.String())
	t.row("account", p.MerchantAccountID)
	t.row("ticket", p.TicketID)
	if p.Reference != nil {
		t.row("reference", *p.Reference)
	}
	if p.Description != nil {
		t.row("description", *p.Description)
	}
	return t
}

// showPayment prints the answer of an endpoint that answers with a payment.
func (c *client) showPayment(body jsontext.Value) error {
	var p payment
	if err := parse(body, &p); err != nil {
		return err
	}
	if p.Perimeter == nil {
		p.Perimeter = &perimeter{}
	}
	return c.show(body, p.ID, p.table())
}

// paymentPath is the path of a payment and of what belongs to it.
func paymentPath(id, below string) string { return "/v1/payments/" + url.PathEscape(id) + below }

func (a *app) paymentCommand() *cobra.Command {
	return a.clientCommand(&cobra.Command{
		Use:     "payment ID",
		Short:   "Show a payment",
		Example: "  tollgate payment $PAYMENT\n  tollgate payment $PAYMENT --json",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, api *client, args []string) error {
		body, err := api.get(ctx, paymentPath(args[0], ""), nil)
		if err != nil {
			return err
		}
		return api.showPayment(body)
	})
}

func (a *app) cancelCommand() *cobra.Command {
	reason, key := "", ""
	c := &cobra.Command{
		Use:     "cancel PAYMENT",
		Short:   "Cancel a payment, or release what is left of it",
		Example: "  tollgate cancel $PAYMENT --reason 'out of stock'",
		Args:    cobra.ExactArgs(1),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		request := map[string]string{}
		if reason != "" {
			request["reason"] = reason
		}
		body, err := api.post(ctx, paymentPath(args[0], "/cancel"), request, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		return api.showPayment(body)
	})
	c.Flags().StringVar(&reason, "reason", "", "why, at most 255 characters")
	keyFlag(c, &key)
	return c
}

func (a *app) reviewCommand() *cobra.Command {
	note, key := "", ""
	c := &cobra.Command{
		Use:     "review PAYMENT approve|reject",
		Short:   "Decide on a payment that waits for a review",
		Example: "  tollgate review $PAYMENT approve --note 'known customer'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || (args[1] != "approve" && args[1] != "reject") {
				return fmt.Errorf("review takes a payment and either approve or reject")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"approve", "reject"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		request := map[string]string{"decision": args[1]}
		if note != "" {
			request["note"] = note
		}
		body, err := api.post(ctx, paymentPath(args[0], "/reviews"), request, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		return api.showPayment(body)
	})
	c.Flags().StringVar(&note, "note", "", "why, at most 255 characters")
	keyFlag(c, &key)
	return c
}

const keyFlagName = "idempotency-key"

func keyFlag(c *cobra.Command, key *string) {
	c.Flags().StringVar(key, keyFlagName, "", "the same key and request give the same answer; a random one when left out")
}

// idempotencyKey is the given key or a new one, which a retry within the
// command repeats.
func (a *app) idempotencyKey(given string) string {
	if given != "" {
		return given
	}
	return a.randomText()
}
