package explain

import (
	"fmt"
	"net/url"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func webhookPath(id, below string) string { return "/v1/webhooks/" + escaped(id) + below }

func (r *reader) webhook(id string) bool {
	w, ok := get[tollgate.WebhookEndpoint](r, "the endpoint", webhookPath(id, ""))
	if !ok {
		return false
	}
	t := &r.e.facts
	t.Row("url", w.URL)
	t.Row("status", w.Status)
	if w.DisabledReason != nil {
		t.Row("disabled", map[string]string{
			"requested": "somebody asked for it", "gone": "the receiver answered 410", "failing": "deliveries failed for days",
		}[*w.DisabledReason])
	}
	t.Row("events", cli.Joined(w.EventTypes, "all that are delivered"))
	t.Row("accounts", cli.Joined(w.MerchantAccountIDs, "all"))
	r.latest(id)
	r.story(id)
	if w.Status != tollgate.WebhookActive {
		r.next("webhooks:write", "webhooks enable "+id, "deliver again")
		r.next("webhooks:write", "recover "+id+" --since 24h", "then send what it missed")
	} else {
		r.next("webhooks:write", "webhooks test "+id, "send it a ping")
	}
	r.next("webhooks:read", "deliveries "+id+" --state failed,retrying,held", "list what did not arrive")
	return true
}

// latest says how the last deliveries of an endpoint went.
func (r *reader) latest(id string) {
	states, n := map[tollgate.DeliveryState]int{}, 0
	each(r, "deliveries", webhookPath(id, "/deliveries"), nil, func(_ cli.Raw, d tollgate.Delivery) bool {
		states[d.State]++
		n++
		return n < 100
	})
	for _, s := range tollgate.DeliveryStates {
		if states[s] > 0 {
			r.e.facts.Row(onFirst(n-100, "deliveries"), fmt.Sprintf("%d %s of the last %d", states[s], s, n))
		}
	}
}

// endpoints hands over the endpoints of the organization until one of them has it.
func (r *reader) endpoints(has func(w *tollgate.WebhookEndpoint) bool) (found bool) {
	each(r, "endpoints", "/v1/webhooks", nil, func(_ cli.Raw, w tollgate.WebhookEndpoint) bool {
		found = found || has(&w)
		return !found
	})
	return found
}

// delivery is looked for at each endpoint: its id does not say whose it is.
func (r *reader) delivery(id string) bool {
	return r.endpoints(func(w *tollgate.WebhookEndpoint) bool {
		if !r.attempts(w, id) {
			return false
		}
		r.e.facts.Row("endpoint", w.ID+"  "+w.URL)
		each(r, "the delivery", webhookPath(w.ID, "/deliveries"), url.Values{}, func(raw cli.Raw, d tollgate.Delivery) bool {
			if d.ID != id {
				return true
			}
			r.e.Objects = append(r.e.Objects, raw)
			r.e.facts.Row("state", string(d.State))
			r.e.facts.Row("event", d.EventID+"  "+string(d.EventType))
			if d.FailureReason != nil {
				h, _ := cli.HelpOf(*d.FailureReason)
				r.e.facts.Row("failed", *d.FailureReason+"  "+h.What)
			}
			r.next("", "explain "+d.EventID, "see the event")
			return false
		})
		r.next("webhooks:read", "attempts "+w.ID+" "+id, "see each attempt")
		r.next("webhooks:write", "resend "+w.ID+" "+id, "send it now")
		return true
	})
}

func (r *reader) recovery(id string) bool {
	return r.endpoints(func(w *tollgate.WebhookEndpoint) bool {
		body, v, err := cli.Read[tollgate.Recovery](r.Get(r.ctx, webhookPath(w.ID, "/recoveries/"+escaped(id)), nil))
		switch {
		case notFound(err):
			return false
		case err != nil:
			if !r.missing("the recovery", err) {
				r.err = err
			}
			return true
		}
		r.e.Objects = append(r.e.Objects, body)
		r.e.facts.Row("state", v.State)
		r.e.facts.Row("endpoint", w.ID+"  "+w.URL)
		r.e.facts.Row("sent again", fmt.Sprintf("%d of %d deliveries since %s", v.Queued, v.Looked, v.Since))
		r.happened(v.CreatedAt, "asked for", id)
		if v.CompletedAt != 0 {
			r.happened(v.CompletedAt, "done", id)
		}
		r.next("webhooks:read", "deliveries "+w.ID, "see the deliveries")
		return true
	})
}
