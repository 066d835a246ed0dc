package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func ticketCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:   "ticket ID",
		Short: "Show a ticket: fee lines, the rules they come from, the decision, the events",
		Long:  "Show a ticket by its own id or by its payment's.",
		Example: `  tollgate ticket $PAYMENT
  tollgate ticket $PAYMENT --json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/payments"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		id := args[0]
		if strings.HasPrefix(id, tollgate.PrefixPayment) {
			_, p, err := cli.Read[tollgate.Payment](api.Get(ctx, PaymentPath(id, ""), nil))
			if err != nil {
				return err
			}
			id = p.TicketID
		}
		body, t, err := cli.Read[tollgate.Ticket](api.Get(ctx, "/v1/tickets/"+url.PathEscape(id), nil))
		if err != nil {
			return err
		}
		if api.JSON || api.Quiet {
			return api.Show(body, t.ID, nil)
		}
		return printTicket(a, &t)
	})
}

func printTicket(a *cli.App, t *tollgate.Ticket) error {
	head := &cli.Table{}
	head.Row("ticket", t.ID)
	head.Row("payment", t.PaymentID)
	head.Row("amount", cli.PriceText(t.Amount))
	head.Row("payee", cli.PayeeText(t.Payee))
	if t.ErasedAt != 0 {
		head.Row("erased", t.ErasedAt.String())
	}
	head.Row("decision", string(t.Decision))
	head.Row("perimeter", cli.DecisionText(t.Perimeter))
	fees := &cli.Table{Right: []int{1}}
	fees.Row("FEE", "AMOUNT", "RULE", "EVALUATION")
	for _, l := range t.Lines {
		fees.Row(l.Label, l.Amount.String(), l.Rule.String(), strconv.Itoa(l.Evaluation))
	}
	fees.Row("Total", t.Total.String(), string(t.Currency))
	runs := &cli.Table{Right: []int{0, 2}}
	runs.Row("EVALUATION", "KIND", "AMOUNT", "AT", "EVENT", "RULES")
	for _, e := range t.Evaluations {
		rules := make([]string, len(e.Rules))
		for i, r := range e.Rules {
			rules[i] = r.Rule.String()
		}
		runs.Row(strconv.Itoa(e.Number), string(e.Kind), e.Input.Amount.String(), e.At.String(), e.EventID, strings.Join(rules, " "))
	}
	events := &cli.Table{}
	events.Row("EVENTS")
	for _, id := range t.EventIDs {
		events.Row(id)
	}
	_, err := fmt.Fprintf(a.Stdout, "%s\n%s\n%s\n%s", head, fees, runs, events)
	return err
}
