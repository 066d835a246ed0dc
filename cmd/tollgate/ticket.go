package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
)

func (a *app) ticketCommand() *cobra.Command {
	return a.clientCommand(&cobra.Command{
		Use:   "ticket ID",
		Short: "Show a ticket: fee lines, the rules they come from, the decision, the events",
		Long:  "Show a ticket by its own id or by its payment's.",
		Example: `  tollgate ticket $PAYMENT
  tollgate ticket $PAYMENT --json`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, api *client, args []string) error {
		id := args[0]
		if strings.HasPrefix(id, tollgate.PrefixPayment) {
			body, err := api.get(ctx, paymentPath(id, ""), nil)
			if err != nil {
				return err
			}
			var p tollgate.Payment
			if err := parse(body, &p); err != nil {
				return err
			}
			id = p.TicketID
		}
		body, err := api.get(ctx, "/v1/tickets/"+url.PathEscape(id), nil)
		if err != nil {
			return err
		}
		var t tollgate.Ticket
		if err := parse(body, &t); err != nil {
			return err
		}
		if api.json || api.quiet {
			return api.show(body, t.ID, nil)
		}
		return a.printTicket(&t)
	})
}

func (a *app) printTicket(t *tollgate.Ticket) error {
	head := &table{}
	head.row("ticket", t.ID)
	head.row("payment", t.PaymentID)
	head.row("amount", priceText(t.Amount))
	head.row("payee", t.Payee)
	head.row("decision", string(t.Decision))
	head.row("perimeter", decisionText(t.Perimeter))
	fees := &table{right: []int{1}}
	fees.row("FEE", "AMOUNT", "RULE", "EVALUATION")
	for _, l := range t.Lines {
		fees.row(l.Label, l.Amount.String(), l.Rule.String(), strconv.Itoa(l.Evaluation))
	}
	fees.row("Total", t.Total.String(), string(t.Currency))
	runs := &table{right: []int{0, 2}}
	runs.row("EVALUATION", "KIND", "AMOUNT", "AT", "EVENT", "RULES")
	for _, e := range t.Evaluations {
		rules := make([]string, len(e.Rules))
		for i, r := range e.Rules {
			rules[i] = r.Rule.String()
		}
		runs.row(strconv.Itoa(e.Number), string(e.Kind), e.Input.Amount.String(), e.At.String(), e.EventID, strings.Join(rules, " "))
	}
	events := &table{}
	events.row("EVENTS")
	for _, id := range t.EventIDs {
		events.row(id)
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n%s\n%s\n%s", head, fees, runs, events)
	return err
}
