package webhooks

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// endOfLog is the place of a ping among an endpoint's open deliveries: behind
// every event, so that it keeps none of them in the log.
const endOfLog tollgate.Instant = 1 << 53

// CommitPing queues a test delivery, or keeps one that is held until its lifetime
// is over. Its event is not in the log: the JSON of it lies in the delivery, which
// is found by its id, and is not listed or recovered. ErrConflict when the endpoint
// has changed since it was read.
func (s *Store) CommitPing(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, p *tollgate.WebhookPing, ans rediskv.Answer) (rediskv.Result, error) {
	b := s.db.NewCommit(c, idem)
	b.Answer = ans
	k, d := b.Space, &p.Delivery
	body, err := json.Marshal(p.Event, json.Deterministic(true))
	if err != nil {
		return rediskv.Result{}, fmt.Errorf("ping: %w", err)
	}
	var f rediskv.Pairs
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Set("st", string(d.State))
	f.Set("we", d.WebhookID)
	f.Set("evt", d.EventID)
	f.Set("et", string(d.EventType))
	f.Set("body", string(body))
	f.Set("trig", string(tollgate.TriggeredBySchedule))
	f.Int("crt", int64(d.CreatedAt))
	b.Unchanged(k.Object(d.WebhookID), rediskv.Revision(p.Revision))
	b.Hash(k.Object(d.ID), "", f)
	if d.State == tollgate.DeliveryHeld {
		b.Do("PEXPIRE", k.Object(d.ID), DeliveryLifetime.Milliseconds())
	} else {
		b.Do("ZADD", k.Open(d.WebhookID), int64(endOfLog), d.ID)
		b.Do("ZADD", k.Queue(d.WebhookID), rediskv.Milli(d.CreatedAt), d.ID)
		b.Sooner(k.Ready, k.Org+"/"+d.WebhookID, d.CreatedAt)
	}
	if err := b.Audit("webhook_endpoint.test", "", "webhook_endpoint", d.WebhookID); err != nil {
		return rediskv.Result{}, err
	}
	return b.Run(ctx)
}
