package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/webhooks"
)

// Reasons for which the service disables an endpoint by itself.
const (
	reasonGone    = "gone"    // it answered 410
	reasonFailing = "failing" // no success for Config.DisableAfter, and deliveries given up
)

// givenUp is how many deliveries an endpoint has lost when it is disabled.
const givenUp = 10

// Tracer begins the span of an attempt whose event was caused by a request that is
// traced (Work.Trace). It gives the span's traceparent, empty for none, and what ends it.
type Tracer func(webhooks.Work) (traceparent string, end func(Sent))

// attempt makes one attempt and writes down how it went. It was written down
// as unknown when it was leased, so there is nothing to do when this worker
// stops or dies in the middle: whoever finds the lease run out goes on. It returns when
// the endpoint has something due, zero when nothing is queued.
func (d *Dispatch) attempt(ctx context.Context, w webhooks.Work) (next tollgate.Instant) {
	keys, sent := d.send(ctx, w)
	now := tollgate.At(d.Clock())
	if ctx.Err() != nil {
		return now
	}
	o := verdict(d.Backoff, w.Run, sent, now, d.Random())
	switch {
	case w.Body == nil && !w.Unread:
		o.State, o.Next = tollgate.DeliveryFailed, 0 // nothing will bring it back
	case sent.Own:
		o.State, o.Next = tollgate.DeliveryRetrying, now.Add(again(d.Backoff, w.Number, d.Random()))
	}
	r, err := d.records.write(ctx, webhooks.Ended{Work: w, Attempt: attemptOf(w, keys, sent, o), Outcome: o})
	switch {
	case err != nil:
		d.Log.Error("an attempt could not be recorded", "delivery", w.DeliveryID, "number", w.Number, "error", err)
		d.Observer.Attempted("unrecorded", sent.Took)
		return now
	case r.Late:
		d.Observer.Attempted("late", sent.Took)
		return r.Next
	}
	d.Observer.Attempted(string(o.State), sent.Took)
	d.Log.Debug("attempt", "delivery", w.DeliveryID, "number", w.Number, "state", string(o.State), "reason", o.Reason)
	lastGood := max(r.LastSuccess, w.Endpoint.CreatedAt, w.Endpoint.UpdatedAt)
	switch {
	case gone(o):
		d.disable(ctx, w, reasonGone)
	case !o.Own && o.State == tollgate.DeliveryFailed && r.Failures >= givenUp && lastGood.Add(d.DisableAfter) <= now:
		d.disable(ctx, w, reasonFailing)
	}
	return r.Next
}

// send makes the attempt, or says why it cannot be made.
func (d *Dispatch) send(ctx context.Context, w webhooks.Work) ([]tollgate.WebhookKey, Sent) {
	now := tollgate.At(d.Clock())
	unsent := func(code, message string) Sent {
		return Sent{Started: now, Own: true, Error: &tollgate.AttemptError{Code: code, Message: message}}
	}
	if w.Damaged || w.Unread {
		return nil, unsent("event_damaged", "The event is stored and cannot be read.")
	}
	if w.Body == nil {
		return nil, unsent("event_expired", "The event is older than what is kept.")
	}
	keys, err := d.liveKeys(w.Endpoint, now)
	if err != nil {
		if _, said := d.unsigned.LoadOrStore(w.Endpoint.ID, true); !said {
			d.Log.Error("deliveries to an endpoint cannot be signed", "webhook", w.Endpoint.ID, "error", err)
		}
		return nil, unsent("signing_failed", "The delivery could not be signed.")
	}
	d.unsigned.Delete(w.Endpoint.ID)
	m := Message{URL: w.Endpoint.URL, EventID: w.EventID, Body: w.Body, Keys: keys}
	var end func(Sent)
	if d.Tracer != nil && w.Trace != "" {
		m.Traceparent, end = d.Tracer(w)
	}
	sent := d.sender.Send(ctx, m)
	if end != nil {
		end(sent)
	}
	sent.Started = now // by the service's clock, as everything that is kept
	return keys, sent
}

// liveKeys opens the keys that sign at this moment, the newest first.
func (d *Dispatch) liveKeys(e *tollgate.StoredWebhook, now tollgate.Instant) ([]tollgate.WebhookKey, error) {
	var keys []tollgate.WebhookKey
	for _, k := range slices.Backward(e.SigningKeys) {
		if !k.Live(now) {
			continue
		}
		i := slices.IndexFunc(e.Sealed, func(s tollgate.SealedKey) bool { return s.Version == k.Version && s.Scheme == k.Scheme })
		if i < 0 {
			return nil, fmt.Errorf("version %d of %s has no secret", k.Version, k.Scheme)
		}
		place := tollgate.SigningKeyPlace(e.ID, k.Version, k.Scheme)
		secret, err := d.Vault.Open(place, e.Sealed[i].Secret)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", place, err)
		}
		keys = append(keys, tollgate.WebhookKey{Version: k.Version, Scheme: k.Scheme, Secret: secret})
	}
	if len(keys) == 0 {
		return nil, errors.New("no key is live")
	}
	return keys, nil
}

func attemptOf(w webhooks.Work, keys []tollgate.WebhookKey, s Sent, o webhooks.Outcome) tollgate.Attempt {
	sum := sha256.Sum256(w.Body)
	took := s.Took.Milliseconds()
	a := tollgate.Attempt{
		Object: "attempt", ID: w.AttemptID, CreatedAt: w.StartedAt, DeliveryID: w.DeliveryID, Number: w.Number, Trigger: w.Trigger,
		Status: tollgate.AttemptFailed, StartedAt: s.Started, DurationMS: &took, Timing: s.Timing, URL: w.Endpoint.URL,
		Request:     tollgate.AttemptRequest{BodySHA256: hex.EncodeToString(sum[:]), BodyBytes: len(w.Body)},
		SigningKeys: []tollgate.AttemptKey{}, Response: s.Response, Error: s.Error, NextAttemptAt: o.Next,
	}
	if w.ReplayID != "" {
		a.ReplayID = &w.ReplayID
	}
	if s.Succeeded() {
		a.Status = tollgate.AttemptSucceeded
	}
	for _, k := range keys {
		a.SigningKeys = append(a.SigningKeys, tollgate.AttemptKey{Version: k.Version, Scheme: k.Scheme})
	}
	return a
}

// disable ends deliveries to an endpoint. One that was moved, enabled or changed
// otherwise since the attempt began stays as it is, and is judged by its own.
func (d *Dispatch) disable(ctx context.Context, w webhooks.Work, reason string) {
	caller := rediskv.Caller{Organization: w.Organization}
	change, err := tollgate.DisableWebhook(d.Store.NewID, d.Store.Origin(caller), *w.Endpoint, reason)
	if err == nil && change != nil {
		_, err = d.Store.CommitWebhook(ctx, caller, nil, change, rediskv.Answer{})
	}
	switch {
	case errors.Is(err, rediskv.ErrConflict), err == nil && change == nil:
	case err != nil:
		d.Log.Error("an endpoint could not be disabled", "webhook", w.Endpoint.ID, "error", err)
	default:
		d.Observer.EndpointDisabled(reason)
		d.Log.Info("endpoint disabled", "webhook", w.Endpoint.ID, "reason", reason)
	}
}
