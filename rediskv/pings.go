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

// CommitPing queues a test delivery, or keeps one that is held until its lifetime
// is over. Its event is not in the log: the JSON of it lies in the delivery, which
// is found by its id, and is not listed or recovered. ErrConflict when the endpoint
// has changed since it was read.
func (s *Store) CommitPing(ctx context.Context, c Caller, idem *Idempotency, p *tollgate.WebhookPing, ans Answer) (Result, error) {
	b := s.commit(c, idem)
	b.answer = ans
	k, d := b.space, &p.Delivery
	body, err := json.Marshal(p.Event, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("ping: %w", err)
	}
	var f pairs
	f.set(envelopeField, envelope)
	f.set("st", string(d.State))
	f.set("we", d.WebhookID)
	f.set("evt", d.EventID)
	f.set("et", string(d.EventType))
	f.set("body", string(body))
	f.set("trig", string(tollgate.TriggeredBySchedule))
	f.int("crt", int64(d.CreatedAt))
	b.unchanged(k.object(d.WebhookID), revision(p.Revision))
	b.hash(k.object(d.ID), "", f)
	if d.State == tollgate.DeliveryHeld {
		b.do("PEXPIRE", k.object(d.ID), deliveryLifetime.Milliseconds())
	} else {
		b.do("ZADD", k.open(d.WebhookID), int64(endOfLog), d.ID)
		b.do("ZADD", k.queue(d.WebhookID), milli(d.CreatedAt), d.ID)
		b.sooner(k.ready, k.org+"/"+d.WebhookID, d.CreatedAt)
	}
	if err := b.audit("webhook_endpoint.test", "", "webhook_endpoint", d.WebhookID); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}
