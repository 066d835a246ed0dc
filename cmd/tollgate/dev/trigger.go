package dev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
)

// scenario is how an event comes about in the sandbox: a payment, and what is
// then done with it.
type scenario struct {
	account, amount, currency, payee string
	automatic                        bool
	captured                         string // part that is captured; empty: none
	canceled                         bool
	refunded                         string // part of it that is then refunded; empty: none
	passes                           string // time that passes then in the whole sandbox, such as 24h; empty: none
}

// sale is a payment that the sandbox authorizes.
var sale = scenario{account: sandbox.AccountEUR, amount: "10.00", currency: "EUR", payee: "shop.example"}

// review is a payment that waits for a review, and expires without one in a day.
var review = sale.with(func(s *scenario) {
	s.account, s.amount, s.currency = sandbox.AccountUSD, "1000.01", "USD" // above this account's review_above
})

var scenarios = map[tollgate.EventType]scenario{
	tollgate.PaymentAuthorized:     sale,
	tollgate.PaymentCaptured:       sale.with(func(s *scenario) { s.automatic = true }),
	tollgate.PaymentDeclined:       sale.with(func(s *scenario) { s.payee = "deny.test" }),
	tollgate.PaymentCanceled:       sale.with(func(s *scenario) { s.canceled = true }),
	tollgate.PaymentReleased:       sale.with(func(s *scenario) { s.captured, s.canceled = "4.00", true }),
	tollgate.PaymentRefunded:       sale.with(func(s *scenario) { s.automatic, s.refunded = true, "4.00" }),
	tollgate.PaymentReviewRequired: review,
	tollgate.PaymentExpired:        review.with(func(s *scenario) { s.passes = "24h" }),
}

func (s scenario) with(change func(*scenario)) scenario {
	change(&s)
	return s
}

// triggers are the types that can be made to happen, in order.
func triggers() []string {
	var names []string
	for _, t := range slices.Sorted(maps.Keys(plays())) {
		names = append(names, string(t))
	}
	return names
}

// TriggerCommand makes an event happen in a sandbox.
func TriggerCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "trigger TYPE",
		Short: "Make an event really happen in the sandbox of 'tollgate dev'",
		Long: `Make an event really happen in the sandbox of 'tollgate dev', as any client would,
and print it. TYPE is one of

  ` + strings.Join(triggers(), "\n  ") + `

payment.expired and payout.* move the clock of the whole sandbox, as 'tollgate
clock advance' does: whatever else is due by then happens too. Types of webhook
endpoints use an endpoint of their own, and delete it. Types of rules publish a
rule that is free; what it activates is rolled back. Types of clients, keys and
grants use a client of their own, and disable it.`,
		Example:   "  tollgate trigger payment.captured\n  tollgate trigger payout.paid\n  tollgate trigger payment.declined --json",
		Args:      cobra.ExactArgs(1),
		ValidArgs: triggers(),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		kind := tollgate.EventType(args[0])
		play, ok := plays()[kind]
		if !ok {
			if why := impossible[kind]; why != "" {
				return cli.UsageError(fmt.Errorf("%s cannot be triggered: %s", kind, why))
			}
			return cli.UsageError(fmt.Errorf("%q cannot be triggered; these can: %s", args[0], strings.Join(triggers(), ", ")))
		}
		event, err := happen(ctx, api, kind, play)
		var refused *cli.Refusal
		if errors.As(err, &refused) && refused.Code == tollgate.CodeNotFound {
			return fmt.Errorf("%w\nThis is not the sandbox of 'tollgate dev'", err)
		}
		if err != nil {
			return err
		}
		return client.PrintEvent(api, event)
	})
	c.Flags().Lookup("json").Usage = "print the event's JSON on one line"
	c.Flags().Lookup("quiet").Usage = "print only the event's id"
	return c
}

// pay does what a scenario says and returns the payment's id.
func (s scenario) pay(ctx context.Context, c *cli.Client) (id string, err error) {
	request := map[string]any{
		"merchant_account_id": s.account, "amount": s.amount, "currency": s.currency, "payee": s.payee, "capture_method": "manual",
	}
	if s.automatic {
		request["capture_method"] = "automatic"
	}
	body, err := c.Post(ctx, "/v1/payments", request, c.App.RandomText())
	var refused *cli.Refusal
	if errors.As(err, &refused) && refused.Code == tollgate.CodePerimeterDenied && refused.PaymentID != "" {
		return refused.PaymentID, nil // a denied payment is kept, and has its event
	}
	if err != nil {
		return "", err
	}
	var p tollgate.Payment
	if err := cli.Parse(body, &p); err != nil {
		return "", err
	}
	if s.captured != "" {
		part := map[string]any{"amount": s.captured, "final_capture": false}
		if _, err := c.Post(ctx, client.PaymentPath(p.ID, "/captures"), part, c.App.RandomText()); err != nil {
			return "", err
		}
	}
	if s.refunded != "" {
		if _, err := c.Post(ctx, client.PaymentPath(p.ID, "/refunds"), map[string]string{"amount": s.refunded}, c.App.RandomText()); err != nil {
			return "", err
		}
	}
	if s.canceled {
		if _, err := c.Post(ctx, client.PaymentPath(p.ID, "/cancel"), map[string]string{}, c.App.RandomText()); err != nil {
			return "", err
		}
	}
	if s.passes != "" {
		if _, err := c.Post(ctx, "/v1/sandbox/clock", map[string]string{"advance": s.passes}, ""); err != nil {
			return "", err
		}
		fmt.Fprintf(c.App.Stderr, "The sandbox's clock goes forward by %s.\n", s.passes)
	}
	return p.ID, nil
}

// happen plays, and waits for the event that comes of it.
func happen(ctx context.Context, c *cli.Client, kind tollgate.EventType, play play) (jsontext.Value, error) {
	query := url.Values{"types": {string(kind)}, "limit": {"100"}, "after": {"latest"}}
	if err := client.StartAtEnd(ctx, c, query); err != nil {
		return nil, err
	}
	done, err := play(ctx, c)
	if err != nil {
		return nil, err
	}
	event, err := await(ctx, c, query, done.object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	if done.after != nil {
		if err := done.after(); err != nil {
			return nil, fmt.Errorf("%s happened; afterwards: %w", kind, err)
		}
	}
	return event, nil
}

// await waits for an event about an object. It was committed with the change, or is about
// to be by the worker.
func await(ctx context.Context, c *cli.Client, query url.Values, object string) (jsontext.Value, error) {
	query.Set("wait", fmt.Sprint(int(client.EventWait.Seconds())))
	c.HTTP.Timeout = max(c.HTTP.Timeout, client.EventWait+10*time.Second)
	for range 3 {
		_, page, err := cli.Read[tollgate.List[cli.Raw]](c.Get(ctx, "/v1/events", query))
		if err != nil {
			return nil, err
		}
		for _, raw := range page.Data {
			var e tollgate.Event
			if err := cli.Parse(raw, &e); err != nil {
				return nil, err
			}
			if e.Names(object) {
				return raw, nil
			}
		}
		if page.NextCursor != nil {
			query.Set("cursor", *page.NextCursor)
		}
	}
	return nil, cli.UnavailableError(fmt.Errorf("there is no such event of %s yet", object))
}
