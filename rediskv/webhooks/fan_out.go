package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Leasing is what a fan-out leases at once; nil: nothing, and all is queued.
type Leasing struct {
	Reserve func([]*Turn) // as TakeDue's
	For     time.Duration
}

// Fanned is what became of events that were handed over.
type Fanned struct {
	Events int
	Work   []Work // what is leased at once
	Queued int    // deliveries that line up
	Due    bool   // some endpoint may have room for what is due there
}

// addressee is an endpoint that wants some of the events that are handed over.
type addressee struct {
	queueHead // of what is leased at once; no Endpoint when nothing is
	want      tollgate.WebhookEndpoint
	events    []redis.XMessage
	folded    bool // as made.folded
}

type fanOutKeys struct{ Dispatch, Webhooks, Ready string }

type fanOutArgs struct {
	Group, WebhooksRevision, NowMs string
	LeaseMs                        int64
	FirstCap, EntryCount           int
}

var scriptFanOut = script.New[fanOutKeys, fanOutArgs](lua, "fan_out")

// fanOut makes the deliveries of one organization's events, the first of them when the
// endpoints are many. A run that got no answer may have leased what nobody sends: that
// ends with the next look at the partition.
func (s *Store) fanOut(ctx context.Context, partition int, k rediskv.Space, entries []redis.XMessage, l *Leasing) (f Fanned, err error) {
	d, err := s.directory(ctx, k)
	if err != nil {
		return f, err
	}
	entries = entries[:min(len(entries), max(1, deliveriesAtOnce/max(1, len(d.endpoints))))]
	to := d.addressees(k, entries)
	args := fanOutArgs{Group: rediskv.DispatchGroup, WebhooksRevision: d.revision, FirstCap: firstCap, EntryCount: len(entries)}
	if l != nil {
		args.LeaseMs = l.For.Milliseconds()
		if err := s.reserve(ctx, k, to, l); err != nil {
			return f, err
		}
	}
	now := s.db.Now()
	args.NowMs = rediskv.Milli(now)
	inv := scriptFanOut.With(fanOutKeys{k.Dispatch, k.Webhooks(), k.Ready}, args)
	for _, m := range entries {
		inv.Args = append(inv.Args, m.ID)
	}
	for _, a := range to {
		s.addTo(inv, a, args.NowMs)
	}
	_, rest, err := s.db.Run(ctx, inv)
	if errors.Is(err, rediskv.ErrStale) {
		s.directories.Delete(k.Org)
	}
	if err != nil {
		for _, a := range to {
			if !peer.IsReply(err) && a.Room > 0 {
				s.unanswered.add(partition, &a.queueHead)
			}
		}
		return f, err
	}
	f, err = s.leased(to, rest, now)
	f.Events = len(entries)
	return f, err
}

// addressees are the endpoints that want some of the events.
func (d *directory) addressees(k rediskv.Space, entries []redis.XMessage) (to []*addressee) {
	for i := range d.endpoints {
		w := &d.endpoints[i]
		var events []redis.XMessage
		for _, m := range entries {
			if w.Wants(tollgate.EventType(rediskv.Text(m, "t")), rediskv.Text(m, "a")) {
				events = append(events, m)
			}
		}
		if len(events) == 0 {
			continue
		}
		a := &addressee{queueHead: queueHead{Turn: Turn{Organization: k.Org}, space: k, id: w.ID}, want: *w, events: events}
		for _, m := range events {
			a.offered = append(a.offered, tollgate.DeliveryOf(rediskv.Text(m, "i"), w.ID))
		}
		to = append(to, a)
	}
	return to
}

// reserve finds out how many of its events each endpoint may get at once, as it is known
// here. One that is not known yet is read; whether it has changed since, the script finds
// out.
func (s *Store) reserve(ctx context.Context, k rediskv.Space, to []*addressee, l *Leasing) error {
	var unknown []*addressee
	var turns []*Turn
	for _, a := range to {
		if a.want.Status != tollgate.WebhookActive {
			continue
		}
		known, ok := s.endpoints.Load(a.member())
		if !ok {
			unknown = append(unknown, a)
			continue
		}
		e := known.(*knownEndpoint)
		a.Endpoint, a.Room = &e.StoredWebhook, min(e.cap, len(a.events))
		turns = append(turns, &a.Turn)
	}
	err := rediskv.EachHash(ctx, s.db, rediskv.Caller{Organization: k.Org}, "read_webhooks", unknown, func(a *addressee) string { return k.Object(a.id) },
		func(a *addressee, f rediskv.Fields) {
			e, err := EndpointOf(a.id, f)
			if err != nil || len(f) == 0 {
				return // whoever takes from its queue says so
			}
			most := firstCap
			if n := int(f.Int("cap")); n > 0 {
				most = n
			}
			s.endpoints.Store(a.member(), &knownEndpoint{*e, most})
			a.Endpoint, a.Room = e, min(most, len(a.events))
			turns = append(turns, &a.Turn)
		})
	if err == nil && len(turns) > 0 {
		l.Reserve(turns)
	}
	return err
}

// addTo adds the deliveries to one endpoint to the script's arguments.
func (s *Store) addTo(inv *script.Invocation, a *addressee, now string) {
	a.folded = record.FormIn(s.db.Layout()) == record.Dense
	k, state, revision, url := a.space, tollgate.DeliveryPending, int64(0), ""
	if a.want.Status != tollgate.WebhookActive {
		state = tollgate.DeliveryHeld
	}
	if a.Endpoint != nil {
		revision, url = a.Endpoint.Revision, a.Endpoint.URL
	}
	a.mark = k.Mark(s.db.NewID(""))
	inv.Grow(6+len(a.events), 7+7*len(a.events))
	inv.Keys = append(inv.Keys, k.Object(a.id), k.Queue(a.id), k.Leases(a.id), k.Open(a.id), k.Deliveries(a.id), a.mark)
	inv.Args = append(inv.Args, a.id, string(state), a.member(), revision, url, a.Room, len(a.events))
	for i, m := range a.events {
		event, kind, place := rediskv.Text(m, "i"), rediskv.Text(m, "t"), rediskv.Text(m, "s")
		milli, _, _ := strings.Cut(place, "-")
		key := k.Object(a.offered[i])
		lasting := rediskv.Pairs{"we", a.id, "evt", event, "et", kind, "sid", place, "crt", now, rediskv.EnvelopeField, ""}.Sealed(key, nil)
		inv.Keys = append(inv.Keys, key)
		inv.Args = append(inv.Args, a.offered[i], rediskv.Text(m, "n"), milli)
		if a.folded {
			inv.Args = append(inv.Args, "", "", "", record.KindOf(key).Fold(lasting))
		} else {
			inv.Args = append(inv.Args, event, kind, place, lasting[len(lasting)-1])
		}
	}
}

// leased reads what the script has leased. The rest is known for the next look.
func (s *Store) leased(to []*addressee, reply []any, now tollgate.Instant) (f Fanned, err error) {
	if len(reply) < 2 {
		return f, errors.New("redis fan_out: no time")
	}
	due, _ := reply[1].(int64)
	f.Due = due == 1
	if real, _ := reply[0].(int64); real != 0 {
		s.apart.Store(real - int64(s.db.Now()))
	}
	at := map[string]bool{}
	for _, one := range reply[2:] {
		part, _ := one.([]any)
		number, _ := first(part).(int64)
		if len(part) < 2 || number < 1 || int(number) > len(to) || to[number-1].Endpoint == nil {
			return f, fmt.Errorf("redis fan_out: %d parts, of endpoint %d of %d", len(part), number, len(to))
		}
		a := to[number-1]
		until, _ := part[1].(int64)
		for _, n := range part[2:] {
			i, _ := n.(int64)
			if i < 1 || int(i) > len(a.events) {
				return f, fmt.Errorf("redis fan_out: delivery %d of %d", i, len(a.events))
			}
			w, m := a.attempt(a.offered[i-1], 1, now), madeOf(a.events[i-1], a.folded)
			w.of(m)
			w.Lease = tollgate.Instant(until)
			at[w.DeliveryID] = true
			f.Work = append(f.Work, w)
		}
	}
	for _, a := range to {
		for i, id := range a.offered {
			if !at[id] && a.want.Status == tollgate.WebhookActive {
				f.Queued++
				s.made.add(id, madeOf(a.events[i], a.folded))
			}
		}
	}
	return f, nil
}
