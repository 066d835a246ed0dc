package tollgate

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// StoredWebhook is an endpoint as it was read: with its encrypted keys and its
// health.
type StoredWebhook struct {
	WebhookEndpoint
	Sealed      []SealedKey
	Revision    int64   // 1, 2, 3 …; 0: it is new
	LastSuccess Instant // zero: never
	Failures    int64   // deliveries given up since then
}

// WebhookList is how many endpoints an organization has, and the revision of
// their list (0: there is none yet).
type WebhookList struct {
	Count    int
	Revision int64
}

// WebhookChange is everything that one change of an endpoint writes, all or
// nothing.
type WebhookChange struct {
	Webhook StoredWebhook // as it becomes; its revision is the one that it was read at
	List    *WebhookList  // as it was read, where the endpoint is new
	Anew    bool          // the endpoint's health begins anew: it is new, enabled or leads elsewhere
	Secret  string        // of a new v1 key, shown once; never stored
	Event   Event         // its type is the audit entry's as well
}

// disabledByRequest is the disabled_reason of an endpoint that a client has
// disabled.
const disabledByRequest = "requested"

// CreateWebhook adds an endpoint with its keys to those that there are.
// CodeQuotaExceeded when they are MaxWebhooks already.
func CreateWebhook(newID NewIDFunc, o Origin, there WebhookList, w StoredWebhook) (*WebhookChange, error) {
	if there.Count >= MaxWebhooks {
		return nil, quotaExceeded("webhooks", "An organization has at most %d webhook endpoints; remove one.", MaxWebhooks)
	}
	c := &WebhookChange{Webhook: w, List: &there, Anew: w.Status == WebhookActive}
	return c, c.close(newID, o, WebhookCreated)
}

// ChangeWebhook makes an endpoint what its owner wants it to be. Where the
// signature scheme changes, its keys follow. nil: nothing changes.
func ChangeWebhook(newID NewIDFunc, o Origin, keys WebhookKeys, was StoredWebhook, want WebhookEndpoint) (*WebhookChange, error) {
	c := was.changed()
	w := &c.Webhook
	want.SigningKeys = w.SigningKeys
	w.WebhookEndpoint = want
	t := WebhookUpdated
	switch {
	case w.Status == was.Status:
	case w.Status == WebhookActive:
		t, w.DisabledReason = WebhookEnabled, nil
	default:
		t, w.DisabledReason = WebhookDisabled, optional(disabledByRequest)
	}
	if w.SignatureScheme != was.SignatureScheme {
		var err error
		if c.Secret, err = keys.match(w, o.At); err != nil {
			return nil, err
		}
	}
	before, err := json.Marshal(was.WebhookEndpoint, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("webhook %s: %w", was.ID, err)
	}
	after, err := json.Marshal(w.WebhookEndpoint, json.Deterministic(true))
	if err != nil || bytes.Equal(before, after) {
		return nil, err
	}
	w.UpdatedAt = o.At
	c.Anew = w.Status == WebhookActive && (was.Status != WebhookActive || w.URL != was.URL)
	return c, c.close(newID, o, t)
}

// RotateWebhook gives an endpoint new keys. The others sign on for overlap, so
// that its receiver can change over.
func RotateWebhook(newID NewIDFunc, o Origin, keys WebhookKeys, was StoredWebhook, overlap time.Duration) (*WebhookChange, error) {
	c := was.changed()
	var err error
	if c.Secret, err = keys.rotate(&c.Webhook, overlap, o.At); err != nil {
		return nil, err
	}
	c.Webhook.UpdatedAt = o.At
	return c, c.close(newID, o, WebhookSecretRotated)
}

// DisableWebhook ends deliveries to an endpoint on the service's own account.
// was is the endpoint that was found wanting. nil: it is disabled.
func DisableWebhook(newID NewIDFunc, o Origin, was StoredWebhook, reason string) (*WebhookChange, error) {
	if was.Status != WebhookActive {
		return nil, nil
	}
	c := was.changed()
	w := &c.Webhook
	w.Status, w.DisabledReason, w.UpdatedAt = WebhookDisabledStatus, &reason, o.At
	return c, c.close(newID, o, WebhookDisabled)
}

// DeleteWebhook removes an endpoint. What is still to be delivered to it is
// canceled.
func DeleteWebhook(newID NewIDFunc, o Origin, was StoredWebhook) (*WebhookChange, error) {
	c := was.changed()
	return c, c.close(newID, o, WebhookDeleted)
}

// changed is a change that changes nothing yet, with keys of its own.
func (w StoredWebhook) changed() *WebhookChange {
	w.SigningKeys, w.Sealed = slices.Clone(w.SigningKeys), slices.Clone(w.Sealed)
	return &WebhookChange{Webhook: w}
}

// close makes the one event of the change.
func (c *WebhookChange) close(newID NewIDFunc, o Origin, t EventType) (err error) {
	w := &c.Webhook
	w.Secret = "" // shown once, kept sealed
	c.Event, err = NewEvent(newID(PrefixEvent), t, o.At, o.Organization, "", o.RequestID, WebhookEventData{w.ID, w.Status, w.DisabledReason})
	return err
}

// WebhookEventData is the data of every webhook_endpoint.* event.
type WebhookEventData struct {
	WebhookID      string  `json:"webhook_id"`
	Status         string  `json:"status"`
	DisabledReason *string `json:"disabled_reason"`
}

// WebhookPing is a delivery that only tests an endpoint.
type WebhookPing struct {
	Delivery Delivery
	Event    Event // what is sent; it is in no log
	Revision int64 // of the endpoint as it was read
}

// PingWebhook makes a signed test delivery, whatever the endpoint's filters.
// While the endpoint is disabled it is held, for a replay.
func PingWebhook(newID NewIDFunc, o Origin, w *StoredWebhook) (*WebhookPing, error) {
	e, err := NewEvent(newID(PrefixEvent), EventPing, o.At, o.Organization, "", o.RequestID, struct {
		WebhookID string `json:"webhook_id"`
	}{w.ID})
	p := &WebhookPing{Event: e, Revision: w.Revision, Delivery: Delivery{
		Object: "delivery", ID: DeliveryOf(e.ID, w.ID), CreatedAt: o.At, WebhookID: w.ID, EventID: e.ID, EventType: e.Type, State: DeliveryPending,
	}}
	if w.Status != WebhookActive {
		p.Delivery.State = DeliveryHeld
	}
	return p, err
}

// DeliveryReplay is a delivery that is sent again, as it was read.
type DeliveryReplay struct {
	Replay   Replay
	Delivery Delivery
	Event    Event
}

// ReplayDelivery has a delivery sent now, whatever its state; the replay is
// linked to it. CodeDeliveryInProgress while an attempt is being made.
func ReplayDelivery(newID NewIDFunc, o Origin, d Delivery, reason *string) (*DeliveryReplay, error) {
	if d.State == DeliverySending {
		return nil, &Error{Code: CodeDeliveryInProgress, Message: "An attempt is being made right now. Ask again when it has ended."}
	}
	r := Replay{
		Object: "replay", ID: newID(PrefixReplay), CreatedAt: o.At, DeliveryID: d.ID, OriginalDeliveryID: d.ID, EventID: d.EventID, WebhookID: d.WebhookID,
		State: DeliveryPending, Reason: reason,
	}
	e, err := NewEvent(newID(PrefixEvent), DeliveryReplayed, o.At, o.Organization, "", o.RequestID, DeliveryReplayedData{d.ID, r.ID, d.WebhookID, d.EventID, reason})
	return &DeliveryReplay{r, d, e}, err
}

// RecoverWebhook begins to send again what an endpoint has missed of events
// since a moment, which must not lie in the future.
func RecoverWebhook(newID NewIDFunc, o Origin, webhook string, since Instant) (*Recovery, error) {
	if since > o.At {
		return nil, Invalid("since", "since lies in the future.")
	}
	return &Recovery{Object: "recovery", ID: newID(PrefixRecovery), CreatedAt: o.At, WebhookID: webhook, Since: since, State: RecoveryPending}, nil
}

// Advance takes a recovery past the next deliveries that it looks at, and
// returns those of events since its moment. last: no more come.
func (r *Recovery) Advance(next []Delivery, last bool, now Instant) (missed []Delivery) {
	for _, d := range next {
		if at, ok := IDTime(d.EventID); ok && At(at) >= r.Since {
			missed = append(missed, d)
		}
	}
	r.Looked += int64(len(next))
	if r.State = RecoveryRunning; last {
		r.State, r.CompletedAt = RecoverySucceeded, now
	}
	return missed
}
