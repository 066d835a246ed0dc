package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
)

func paymentTable(p *tollgate.Payment) *table {
	t := &table{}
	t.row("payment", p.ID)
	t.row("status", string(p.Status))
	t.row("amount", priceText(p.Amount))
	t.row("payee", p.Payee)
	t.row("captured", p.AmountCaptured.String())
	t.row("capturable", p.AmountCapturable.String()+" until "+p.CaptureBefore.String())
	t.row("released", p.AmountReleased.String())
	if p.AmountRefunded.Minor > 0 {
		t.row("refunded", p.AmountRefunded.String())
	}
	t.row("fees", p.FeeTotal.String())
	t.row("decision", decisionText(p.Perimeter))
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
	var p tollgate.Payment
	if err := parse(body, &p); err != nil {
		return err
	}
	return c.show(body, p.ID, paymentTable(&p))
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
