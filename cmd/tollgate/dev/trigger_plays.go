package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/cli"
)

// play makes an event happen.
type play func(ctx context.Context, c *cli.Client) (played, error)

// played is what an event is about, and what is to be done once it has happened.
type played struct {
	object string
	after  func() error
}

// impossible are the types that cannot be triggered, and why.
var impossible = map[tollgate.EventType]string{
	tollgate.PayoutFailed:       "the sandbox pays every payout; run 'tollgate dev' with TOLLGATE_PAYOUT_URL and answer failed",
	tollgate.PayoutHeld:         "a payout is held when the ledger does not add up, and the sandbox's does",
	tollgate.PayoutReleased:     "only a held payout can be released, and the sandbox holds none",
	tollgate.ExportFailedEvent:  "an export fails only when its files have no room left or Redis loses it",
	tollgate.IntegrityFailed:    "it tells of a stored object that is damaged",
	tollgate.CutoffUpdated:      provisioned,
	tollgate.PerimeterActivated: provisioned, tollgate.MerchantAccountUpdated: provisioned, tollgate.OrganizationUpdated: provisioned,
	tollgate.LegalEntityUpdated: provisioned,
}

const provisioned = "it comes of provisioning, not of a request; run 'tollgate dev --redis URL', and 'tollgate provision' a changed file there"

// plays has a play for every type that can happen in a sandbox.
func plays() map[tollgate.EventType]play {
	all := map[tollgate.EventType]play{
		tollgate.PayoutCreated: payOut, tollgate.PayoutPaid: payOut,
		tollgate.ExportCreated: export, tollgate.ExportSucceeded: export,
		tollgate.RulePublished: publish, tollgate.RuleActivated: activate, tollgate.RuleRetired: retire,
		tollgate.WebhookCreated:       endpoint(),
		tollgate.WebhookUpdated:       endpoint(change(map[string]any{"description": "Changed by tollgate trigger"})),
		tollgate.WebhookDisabled:      endpoint(change(map[string]any{"status": "disabled"})),
		tollgate.WebhookEnabled:       endpoint(change(map[string]any{"status": "disabled"}), change(map[string]any{"status": "active"})),
		tollgate.WebhookSecretRotated: endpoint(rotate),
		tollgate.WebhookDeleted:       endpoint(remove),
		tollgate.DeliveryReplayed:     replay,
		tollgate.ClientCreated:        someClient(),
		tollgate.ClientUpdated:        someClient(patch(map[string]any{"name": "Changed by tollgate trigger"})),
		tollgate.ClientDisabled:       someClient(patch(disabled)),
		tollgate.ClientEnabled:        someClient(patch(disabled), patch(map[string]any{"status": "active"})),
		tollgate.KeyRotated:           someClient(addKey),
		tollgate.KeyRevoked:           someClient(addKey, removeKey),
		tollgate.GrantCreated:         someClient(grant),
		tollgate.GrantRevoked:         someClient(grant, revoke),
	}
	for t, s := range scenarios {
		all[t] = func(ctx context.Context, c *cli.Client) (played, error) {
			payment, err := s.pay(ctx, c)
			return played{object: payment}, err
		}
	}
	return all
}

// payOut captures, and lets time pass until that is paid.
func payOut(ctx context.Context, c *cli.Client) (played, error) {
	payment, err := scenarios[tollgate.PaymentCaptured].pay(ctx, c)
	if err != nil {
		return played{}, err
	}
	_, page, err := cli.Read[tollgate.List[tollgate.Transaction]](c.Get(ctx, "/v1/transactions", url.Values{"payment_id": {payment}, "type": {"capture"}}))
	if err != nil {
		return played{}, err
	}
	if len(page.Data) == 0 || page.Data[0].AvailableOn == nil {
		return played{}, fmt.Errorf("the capture of %s has no payout date", payment)
	}
	day, err := time.Parse(time.DateOnly, *page.Data[0].AvailableOn)
	if err != nil {
		return played{}, err
	}
	to := tollgate.At(day.Add(36 * time.Hour)) // the day is over in every zone
	if _, err := c.Post(ctx, "/v1/sandbox/clock", map[string]string{"to": to.String()}, ""); err != nil {
		return played{}, err
	}
	fmt.Fprintf(c.App.Stderr, "The sandbox's clock goes forward to %s.\n", to)
	return played{object: sandbox.AccountEUR}, nil
}

func export(ctx context.Context, c *cli.Client) (played, error) {
	_, x, err := cli.Read[tollgate.Export](c.Post(ctx, "/v1/exports/preview", map[string]string{"dataset": "payments"}, c.App.RandomText()))
	return played{object: x.ID}, err
}

// step is done to an endpoint.
type step func(ctx context.Context, c *cli.Client, id string) error

func change(to map[string]any) step {
	return func(ctx context.Context, c *cli.Client, id string) error {
		_, err := c.Write(ctx, http.MethodPatch, "/v1/webhooks/"+id, to, "")
		return err
	}
}

func rotate(ctx context.Context, c *cli.Client, id string) error {
	_, err := c.Post(ctx, "/v1/webhooks/"+id+"/secrets", map[string]any{}, c.App.RandomText())
	return err
}

func remove(ctx context.Context, c *cli.Client, id string) error {
	_, err := c.Write(ctx, http.MethodDelete, "/v1/webhooks/"+id, nil, "")
	var refused *cli.Refusal
	if errors.As(err, &refused) && refused.Code == tollgate.CodeNotFound {
		return nil // it is gone already
	}
	return err
}

// endpoint makes an endpoint that gets no deliveries, takes the steps, and deletes it.
func endpoint(steps ...step) play {
	return func(ctx context.Context, c *cli.Client) (played, error) {
		request := map[string]any{"url": "http://127.0.0.1:9/", "description": "Made by tollgate trigger", "event_types": []string{string(tollgate.IntegrityFailed)}}
		_, w, err := cli.Read[tollgate.WebhookEndpoint](c.Post(ctx, "/v1/webhooks", request, c.App.RandomText()))
		if err != nil {
			return played{}, err
		}
		for _, do := range steps {
			if err := do(ctx, c, w.ID); err != nil {
				return played{}, errors.Join(err, remove(ctx, c, w.ID))
			}
		}
		return played{w.ID, func() error { return remove(ctx, c, w.ID) }}, nil
	}
}

var disabled = map[string]any{"status": tollgate.ClientDisabledStatus}

// someClient makes a client, takes the steps, and disables it: a client cannot be
// deleted.
func someClient(steps ...step) play {
	return func(ctx context.Context, c *cli.Client) (played, error) {
		_, o, err := cli.Read[tollgate.ClientAnswer](c.Post(ctx, "/v1/clients", map[string]any{"name": "Made by tollgate trigger"}, c.App.RandomText()))
		for _, do := range steps {
			if err == nil {
				err = do(ctx, c, o.ID)
			}
		}
		return played{o.ID, func() error { return patch(disabled)(ctx, c, o.ID) }}, err
	}
}

func patch(to map[string]any) step {
	return func(ctx context.Context, c *cli.Client, id string) error {
		_, err := c.Write(ctx, http.MethodPatch, "/v1/clients/"+id, to, "")
		return err
	}
}

const triggeredKey = "triggered"

func addKey(ctx context.Context, c *cli.Client, id string) error {
	jwk := map[string]string{ // of RFC 7515, appendix A.3
		"kty": "EC", "crv": "P-256", "kid": triggeredKey, "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
	}
	_, err := c.Post(ctx, "/v1/clients/"+id+"/keys", map[string]any{"jwk": jwk}, c.App.RandomText())
	return err
}

func removeKey(ctx context.Context, c *cli.Client, id string) error {
	_, err := c.Write(ctx, http.MethodDelete, "/v1/clients/"+id+"/keys/"+triggeredKey, nil, "")
	return err
}

func grant(ctx context.Context, c *cli.Client, id string) error {
	_, err := c.Post(ctx, "/v1/grants", map[string]any{"client_id": id, "scopes": []string{"quotes:read"}}, c.App.RandomText())
	return err
}

func revoke(ctx context.Context, c *cli.Client, id string) error {
	_, page, err := cli.Read[tollgate.List[tollgate.Grant]](c.Get(ctx, "/v1/grants", url.Values{"client_id": {id}}))
	for _, g := range page.Data {
		if err == nil {
			_, err = c.Post(ctx, "/v1/grants/"+g.ID+"/revoke", nil, c.App.RandomText())
		}
	}
	return err
}

// replay pays, waits for the delivery to the sandbox's own receiver, and asks for it again.
func replay(ctx context.Context, c *cli.Client) (played, error) {
	payment, err := sale.pay(ctx, c)
	if err != nil {
		return played{}, err
	}
	query := url.Values{"object_id": {payment}, "types": {string(tollgate.PaymentAuthorized)}, "limit": {"1"}}
	_, page, err := cli.Read[tollgate.List[tollgate.Event]](c.Get(ctx, "/v1/events", query))
	if err != nil || len(page.Data) == 0 {
		return played{}, errors.Join(err, fmt.Errorf("%s has no event", payment))
	}
	delivery := tollgate.DeliveryOf(page.Data[0].ID, sandbox.Webhook)
	err = until(ctx, []tollgate.Code{tollgate.CodeNotFound, tollgate.CodeDeliveryInProgress}, func() error {
		_, err := c.Post(ctx, "/v1/webhooks/"+sandbox.Webhook+"/deliveries/"+delivery+"/replays", map[string]string{"reason": "tollgate trigger"}, c.App.RandomText())
		return err
	})
	return played{object: delivery}, err
}

// until tries again while a request is refused with one of the codes, for half a minute.
func until(ctx context.Context, codes []tollgate.Code, try func() error) error {
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		err := try()
		var refused *cli.Refusal
		if !errors.As(err, &refused) || pause > 10*time.Second {
			return err
		}
		again := false
		for _, code := range codes {
			again = again || refused.Code == code
		}
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
