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
	grant, version := c.grant(k)
	record, line, print, stored := c.remembered(k, idem, s.Mint(""), ans)
	c.Request.Status = ans.Status
	body, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("ping: %w", err)
	}
	auditHead, auditTail, err := s.entry(c, "webhook_endpoint.test", "succeeded", "", "webhook_endpoint", webhook)
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
	outcome, rest, err := s.run(ctx, scriptPingWebhook, []string{
		grant, record, k.object(webhook), k.queue(webhook), k.open(webhook), k.ready, k.sequences(), k.audit(), k.object(delivery),
	}, append([]any{
		line, version, print, idempotencyLifetime.Milliseconds(), stored, int64(s.Now()), k.org + "/" + webhook, delivery,
		auditHead, auditTail, int64(endOfLog), deliveryLifetime.Milliseconds(), len(f),
	}, f...))
	if err != nil {
		return Result{}, err
	}
	return result(outcome, rest, ans)
}
