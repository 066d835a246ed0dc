package checks

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/streams"
)

const (
	// recentEvents is how long a log may be that a walk keeps in memory.
	recentEvents = 5_000
	// nearby is how many entries are looked at where an event's id says that it is.
	nearby = 4
)

// recent is a short log, or where a long one begins.
type recent struct {
	asked  bool
	long   bool
	events map[string]*tollgate.Event
	last   string           // the place of the last one
	first  tollgate.Instant // when the log's oldest event was made
	whole  bool             // nothing has been trimmed
}

func newRecent() *recent { return &recent{events: map[string]*tollgate.Event{}, last: "-"} }

// eventsOf finds events of a payment by their ids.
func (w *walk) eventsOf(ctx context.Context, ids []string) ([]consistency.PaymentEvent, error) {
	if err := w.beginning(ctx); err != nil {
		return nil, err
	}
	if !w.log.long {
		if err := w.shortLog(ctx, ids); err != nil {
			return nil, err
		}
	}
	found := map[string]*tollgate.Event{}
	if w.log.long {
		var err error
		if found, err = w.nearby(ctx, ids); err != nil {
			return nil, err
		}
	}
	events := make([]consistency.PaymentEvent, len(ids))
	for i, id := range ids {
		e, unknown := found[id], false
		if !w.log.long {
			e = w.log.events[id]
		}
		if e == nil && w.log.long {
			var err error
			if e, unknown, err = w.far(ctx, id); err != nil {
				return nil, err
			}
		}
		events[i] = consistency.PaymentEvent{ID: id, Trimmed: unknown || e == nil && w.trimmed(id)}
		if e == nil || json.Unmarshal(e.Data, &events[i].Data) != nil {
			continue
		}
		events[i].Sequence, events[i].Type = e.Sequence, e.Type
	}
	return events, nil
}

// beginning looks once how long the log is, and since when it is kept.
func (w *walk) beginning(ctx context.Context) error {
	l := w.log
	if l.asked {
		return nil
	}
	length := streams.Counter{Log: w.k.Events()}
	for done := false; !done; done = length.Done() {
		if err := w.atOnce(ctx, "log", length.Ask); err != nil {
			return err
		}
	}
	oldest, err := streams.Range(ctx, w.store.db, w.k.Events(), "-", "+", 1)
	if err != nil {
		return err
	}
	l.asked, l.long = true, length.Len() > recentEvents
	for _, m := range oldest {
		if at, ok := tollgate.IDTime(rediskv.Text(m, "i")); ok {
			l.first = tollgate.At(at)
		}
		n, _ := eventlog.PlaceOf(m)
		l.whole = n == 1
	}
	return nil
}

// trimmed reports whether an event is one that the log may have had.
func (w *walk) trimmed(id string) bool {
	made, ok := tollgate.IDTime(id)
	return ok && !w.log.whole && tollgate.At(made) <= w.log.first.Add(rediskv.Skew)
}

// shortLog reads what has come to a short log, unless all events are known.
func (w *walk) shortLog(ctx context.Context, ids []string) error {
	l := w.log
	missing := false
	for _, id := range ids {
		missing = missing || l.events[id] == nil
	}
	for missing {
		from := l.last
		if from != "-" {
			from = "(" + from
		}
		entries, err := streams.Range(ctx, w.store.db, w.k.Events(), from, "+", rediskv.ScanPage)
		if err != nil {
			return err
		}
		for _, m := range entries {
			if e, err := eventlog.EventOf(w.k, m); err == nil {
				l.events[e.ID] = e
			} else { // the walk through the log reports it; its payment is not to blame
				l.events[rediskv.Text(m, "i")] = nil
			}
			l.last = m.ID
		}
		missing = len(entries) == rediskv.ScanPage
	}
	if len(l.events) > 2*recentEvents { // it has grown meanwhile
		l.long, l.events = true, nil
	}
	return nil
}

// nearby looks for events where their ids say that they are: in the head of the log,
// and then in its segments.
func (w *walk) nearby(ctx context.Context, ids []string) (map[string]*tollgate.Event, error) {
	var replies []*redis.XMessageSliceCmd
	places := make([]string, len(ids))
	if err := w.pipelined(ctx, "events", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, id := range ids {
			if made, ok := tollgate.IDTime(id); ok {
				places[i] = rediskv.Milli(tollgate.At(made))
				replies = append(replies, pipe.XRangeN(ctx, w.k.Events(), places[i], "+", nearby))
			}
		}
	}); err != nil {
		return nil, err
	}
	found := map[string]*tollgate.Event{}
	take := func(entries []redis.XMessage) {
		for _, m := range entries {
			if e, err := eventlog.EventOf(w.k, m); err == nil {
				found[e.ID] = e
			}
		}
	}
	for _, r := range replies {
		take(r.Val())
	}
	var older []*streams.Asked
	for i, id := range ids {
		if found[id] == nil && places[i] != "" {
			older = append(older, &streams.Asked{Log: w.k.Events(), First: places[i], Last: "+", Count: nearby})
		}
	}
	if err := w.timed(ctx, "events", func(ctx context.Context) error { return streams.Behind(ctx, w.redis(), older) }); err != nil {
		return nil, err
	}
	for _, a := range older {
		take(a.Found)
	}
	return found, nil
}

// far looks for an event as a client does who knows its id alone. unknown: it cannot
// be read, which is not its payment's fault.
func (w *walk) far(ctx context.Context, id string) (e *tollgate.Event, unknown bool, err error) {
	if w.trimmed(id) {
		return nil, true, nil
	}
	text, err := w.store.events.Event(ctx, rediskv.Caller{Organization: w.k.Org}, id, nil)
	switch {
	case rediskv.Gone(err):
		return nil, false, nil
	case rediskv.IsDamage(err):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	}
	e = new(tollgate.Event)
	return e, false, json.Unmarshal(text, e)
}
