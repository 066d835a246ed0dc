package tollgate

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
