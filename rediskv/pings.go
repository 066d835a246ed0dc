package rediskv

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// endOfLog is the place of a ping among an endpoint's open deliveries: behind
// every event, so that it keeps none of them in the log.
const endOfLog tollgate.Instant = 1 << 53

// PingWebhook queues a delivery that only tests an endpoint. e is no event of
// the log: its JSON lies in the delivery itself, which is found by its id,
// tollgate.DeliveryOf, and is not listed or recovered.
func (s *Store) PingWebhook(ctx context.Context, c Caller, idem *Idempotency, webhook string, e tollgate.Event, ans Answer) (Result, error) {
	k := s.space(c.Organization)
	keys, args := c.request(k, idem, s.Mint(""), ans)
	c.Request.Status = ans.Status
	body, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("ping: %w", err)
	}
	entry, err := s.entry(c, "webhook_endpoint.test", "succeeded", "", "webhook_endpoint", webhook)
	if err != nil {
		return Result{}, err
	}
	var f pairs
	f.set("we", webhook)
	f.set("evt", e.ID)
	f.set("et", string(e.Type))
	f.set("body", string(body))
	f.set("trig", string(tollgate.TriggeredBySchedule))
	f.int("crt", int64(e.CreatedAt))
	delivery := tollgate.DeliveryOf(e.ID, webhook)
	inv := scriptPingWebhook.with(pingWebhookKeys{
		requestKeys: keys, Endpoint: k.object(webhook), Queue: k.queue(webhook), Open: k.open(webhook), Ready: k.ready,
		Sequences: k.sequences(), Audit: k.audit(), Delivery: k.object(delivery),
	}, pingWebhookArgs{
		requestArgs: args, NowMs: int64(s.Now()), ReadyMember: k.org + "/" + webhook, DeliveryID: delivery, auditArgs: entry,
		OpenScore: int64(endOfLog), HeldLifetime: deliveryLifetime.Milliseconds(), FieldCount: len(f),
	})
	inv.args = append(inv.args, f...)
	outcome, rest, err := s.run(ctx, inv)
	if err != nil {
		return Result{}, err
	}
	return result(outcome, rest, ans)
}

type pingWebhookKeys struct {
	requestKeys
	Endpoint, Queue, Open, Ready, Sequences, Audit, Delivery string
}

type pingWebhookArgs struct {
	requestArgs
	NowMs                   int64
	ReadyMember, DeliveryID string
	auditArgs
	OpenScore, HeldLifetime int64
	FieldCount              int
}

var scriptPingWebhook = newScript[pingWebhookKeys, pingWebhookArgs]("ping_webhook")
