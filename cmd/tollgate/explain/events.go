package explain

import (
	"fmt"
	"net/url"
	"strings"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// happened adds a moment to the story.
func (r *reader) happened(at tollgate.Instant, what, id string) {
	r.e.Story = append(r.e.Story, moment{at, what, id})
}

// story tells the events about an object, and where they were delivered.
// types selects some of them.
func (r *reader) story(id string, types ...tollgate.EventType) {
	var events []tollgate.Event
	query := url.Values{"object_id": {id}, "order": {"asc"}}
	if len(types) > 0 {
		query.Set("types", strings.ReplaceAll(cli.Joined(types, ""), " ", ""))
	}
	each(r, "events", "/v1/events", query, func(raw cli.Raw, e tollgate.Event) bool {
		events = append(events, e)
		r.e.Objects = append(r.e.Objects, raw)
		r.happened(e.CreatedAt, sentence(&e), e.ID)
		return true
	})
	if len(events) > 0 {
		r.deliveries(events)
		r.next("events:read", "events --object "+id, "list its events")
	}
}

// maxLooked bounds how many deliveries an explanation looks for.
const maxLooked = 60

// deliveries tells where events were delivered: the id of a delivery follows from its
// event and its endpoint.
func (r *reader) deliveries(events []tollgate.Event) {
	looked := 0
	var endpoints []tollgate.WebhookEndpoint
	if len(events) == 0 {
		return
	}
	each(r, "deliveries", "/v1/webhooks", nil, func(_ cli.Raw, w tollgate.WebhookEndpoint) bool {
		endpoints = append(endpoints, w)
		return true
	})
	for _, e := range events {
		for _, w := range endpoints {
			account := ""
			if e.MerchantAccountID != nil {
				account = *e.MerchantAccountID
			}
			if !w.Wants(e.Type, account) || !strings.HasPrefix(e.ID, tollgate.PrefixEvent) || len(e.ID) < 14 {
				continue
			}
			if looked++; looked > maxLooked {
				r.e.Unread = append(r.e.Unread, gap{"more deliveries", "There are more than this command looks for; list them with 'tollgate deliveries'."})
				return
			}
			r.attempts(&w, tollgate.DeliveryOf(e.ID, w.ID))
		}
	}
}

// attempts tells how a delivery went, and reports whether there is one.
func (r *reader) attempts(w *tollgate.WebhookEndpoint, delivery string) (found bool) {
	each(r, "deliveries", "/v1/webhooks/"+escaped(w.ID)+"/deliveries/"+escaped(delivery)+"/attempts", nil, func(raw cli.Raw, x tollgate.Attempt) bool {
		found = true
		r.e.Objects = append(r.e.Objects, raw)
		text := "delivered to " + x.URL
		switch {
		case x.Status == tollgate.AttemptSucceeded:
		case x.Error != nil:
			text = fmt.Sprintf("not delivered to %s: %s", x.URL, x.Error.Code)
		case x.Response != nil:
			text = fmt.Sprintf("not delivered to %s: it answered %d", x.URL, x.Response.StatusCode)
		default:
			text = fmt.Sprintf("perhaps delivered to %s: the attempt is %s", x.URL, x.Status)
		}
		if x.NextAttemptAt != 0 {
			text += ", next attempt " + x.NextAttemptAt.String()
		}
		r.happened(x.StartedAt, text, delivery)
		return true
	})
	return found
}

// sentence says what an event tells.
func sentence(e *tollgate.Event) string {
	data, _ := e.Read() // of what cannot be read only the type is said
	_, verb, _ := strings.Cut(string(e.Type), ".")
	verb = strings.ReplaceAll(verb, "_", " ")
	switch d := data.(type) {
	case *tollgate.PaymentEventData:
		amount := d.Amount
		if e.Type == tollgate.PaymentReleased {
			amount = d.AmountReleased
		}
		text := fmt.Sprintf("%s: %s", verb, cli.PriceText(amount))
		if e.Type == tollgate.PaymentCaptured || e.Type == tollgate.PaymentRefunded {
			text += ", fees " + d.FeeTotal.String()
		}
		if d.Perimeter.Reason != "" && (e.Type == tollgate.PaymentDeclined || e.Type == tollgate.PaymentReviewRequired) {
			text += ", because of " + string(d.Perimeter.Reason)
		}
		return text
	case *tollgate.PayoutEventData:
		return fmt.Sprintf("payout %s: %s for %s", verb, cli.PriceText(d.Amount), d.PayoutDate)
	case *tollgate.MerchantAccountEventData:
		return string(e.Type) + changed(d.Changed)
	case *tollgate.DeliveryReplayedData:
		return "sent again on request"
	}
	return string(e.Type)
}

func changed(members []string) string {
	if len(members) == 0 {
		return ""
	}
	return ": " + strings.Join(members, ", ")
}

func (r *reader) event(id string) bool {
	e, ok := get[tollgate.Event](r, "the event", "/v1/events/"+escaped(id))
	if !ok {
		return false
	}
	r.e.facts.Row("type", string(e.Type))
	r.e.facts.Row("sequence", fmt.Sprint(e.Sequence))
	if e.RequestID != nil {
		r.e.facts.Row("request", *e.RequestID)
	}
	r.happened(e.CreatedAt, sentence(&e), e.ID)
	r.deliveries([]tollgate.Event{e})
	if !e.Type.Deliverable() {
		r.e.facts.Row("delivered", "never: events of this type are only listed")
	}
	for _, object := range named(&e) {
		r.next("", "explain "+object, "see what it is about")
	}
	r.next("events:read", "event "+id, "see its JSON")
	return true
}

// named is the first id in an event's data: what it is about.
func named(e *tollgate.Event) []string {
	for _, member := range []string{"payment_id", "payout_id", "export_id", "delivery_id", "webhook_id", "rule_id", "merchant_account_id", "grant_id", "legal_entity_id", "organization_id", "object_id"} {
		var data map[string]cli.Raw
		var id string
		if cli.Parse(e.Data, &data) == nil && data[member] != nil && cli.Parse(data[member], &id) == nil && tollgate.ValidID(id) {
			return []string{id}
		}
	}
	return nil
}

// request looks for the events that a request has caused, among the latest.
func (r *reader) request(id string) (found bool) {
	each(r, "events", "/v1/events", url.Values{"order": {"desc"}}, func(raw cli.Raw, e tollgate.Event) bool {
		if e.RequestID != nil && *e.RequestID == id {
			found = true
			r.e.Objects = append(r.e.Objects, raw)
			r.happened(e.CreatedAt, sentence(&e), e.ID)
			for _, object := range named(&e) {
				r.next("", "explain "+object, "see what it changed")
			}
		}
		at, ok := tollgate.IDTime(id)
		return !ok || e.CreatedAt >= tollgate.At(at)
	})
	if !found {
		r.e.facts.Row("events", "none: it changed nothing that has an event, or that is longer ago than events are kept")
	}
	return found
}

// told is for what only events tell of.
func (r *reader) told(id string) bool {
	r.story(id)
	for _, m := range r.e.Story {
		r.next("events:read", "explain "+m.ID, "see the event")
	}
	return len(r.e.Story) > 0
}
