package look

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	lru "github.com/hashicorp/golang-lru/v2"
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
	// An event's id is made before its script runs, and by another clock than that of
	// Redis. around is how far away it may be, and aroundPage how many entries are read at
	// once and kept for the next payments, whose events stand beside it.
	around     = time.Second
	aroundPage = 1000
)

// Log finds events by their ids, in a short log, or where a long one begins.
type Log struct {
	Reader
	store *eventlog.Store

	asked  bool
	long   bool
	events map[string]*tollgate.Event
	last   string           // the place of the last one
	first  tollgate.Instant // when the log's oldest event was made
	whole  bool             // nothing has been trimmed
	recent *lru.Cache[string, redis.XMessage]
}

// NewLog is that of an organization.
func NewLog(r Reader, store *eventlog.Store) *Log {
	recent, err := lru.New[string, redis.XMessage](4 * recentEvents)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Log{Reader: r, store: store, events: map[string]*tollgate.Event{}, last: "-", recent: recent}
}

// EventsOf finds events of a payment by their ids.
func (l *Log) EventsOf(ctx context.Context, ids []string) ([]consistency.PaymentEvent, error) {
	if err := l.beginning(ctx); err != nil {
		return nil, err
	}
	all := ids
	ids = slices.DeleteFunc(slices.Clone(all), l.gone)
	if !l.long {
		if err := l.shortLog(ctx, ids); err != nil {
			return nil, err
		}
	}
	found := map[string]*tollgate.Event{}
	if l.long {
		near, err := l.store.Nearby(ctx, l.K, slices.DeleteFunc(slices.Clone(ids), l.recent.Contains))
		if err != nil {
			return nil, err
		}
		for id, m := range near {
			if e, err := eventlog.EventOf(l.K, *m); err == nil {
				found[id] = e
			}
		}
		for _, id := range ids {
			if found[id] == nil {
				if found[id], err = l.around(ctx, id); err != nil {
					return nil, err
				}
			}
		}
	}
	events := make([]consistency.PaymentEvent, len(all))
	for i, id := range all {
		if l.gone(id) {
			events[i] = consistency.PaymentEvent{ID: id, Trimmed: true}
			continue
		}
		e, unknown := found[id], false
		if !l.long {
			e = l.events[id]
		}
		if e == nil && l.long {
			var err error
			if e, unknown, err = l.far(ctx, id); err != nil {
				return nil, err
			}
		}
		events[i] = consistency.PaymentEvent{ID: id, Trimmed: unknown || e == nil && l.trimmed(id)}
		if e == nil || json.Unmarshal(e.Data, &events[i].Data) != nil {
			continue
		}
		events[i].Sequence, events[i].Type = e.Sequence, e.Type
	}
	return events, nil
}

// beginning looks once how long the log is, and since when it is kept.
func (l *Log) beginning(ctx context.Context) error {
	if l.asked {
		return nil
	}
	length := streams.Counter{Log: l.K.Events()}
	for done := false; !done; done = length.Done() {
		if err := l.AtOnce(ctx, "log", length.Ask); err != nil {
			return err
		}
	}
	oldest, err := streams.Range(ctx, l.DB, l.K.Events(), "-", "+", 1)
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

// gone reports whether an event is too old for the log to have it: nobody has to look.
func (l *Log) gone(id string) bool {
	made, ok := tollgate.IDTime(id)
	return ok && !l.whole && tollgate.At(made) < l.first.Add(-2*rediskv.Skew)
}

// trimmed reports whether an event is one that the log may have had.
func (l *Log) trimmed(id string) bool {
	made, ok := tollgate.IDTime(id)
	return ok && !l.whole && tollgate.At(made) <= l.first.Add(rediskv.Skew)
}

// shortLog reads what has come to a short log, unless all events are known.
func (l *Log) shortLog(ctx context.Context, ids []string) error {
	missing := false
	for _, id := range ids {
		missing = missing || l.events[id] == nil
	}
	for missing {
		from := l.last
		if from != "-" {
			from = "(" + from
		}
		entries, err := streams.Range(ctx, l.DB, l.K.Events(), from, "+", rediskv.ScanPage)
		if err != nil {
			return err
		}
		for _, m := range entries {
			if e, err := eventlog.EventOf(l.K, m); err == nil {
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

// around looks for an event among those that were written within a second, and keeps
// what it reads; nil where it is not there.
func (l *Log) around(ctx context.Context, id string) (*tollgate.Event, error) {
	made, ok := tollgate.IDTime(id)
	if !ok {
		return nil, nil
	}
	at := tollgate.At(made)
	from, until := rediskv.Milli(max(1, at.Add(-around))), rediskv.Milli(at.Add(around))
	for {
		if m, ok := l.recent.Get(id); ok {
			e, err := eventlog.EventOf(l.K, m)
			if err != nil {
				return nil, nil // far says what is wrong with it
			}
			return e, nil
		}
		entries, err := streams.Range(ctx, l.DB, l.K.Events(), from, until, aroundPage)
		if err != nil || len(entries) == 0 {
			return nil, err
		}
		for _, m := range entries {
			l.recent.Add(rediskv.Text(m, "i"), m)
			from = "(" + m.ID
		}
	}
}

// far looks for an event as a client does who knows its id alone. unknown: it cannot
// be read, which is not its payment's fault.
func (l *Log) far(ctx context.Context, id string) (e *tollgate.Event, unknown bool, err error) {
	if l.trimmed(id) {
		return nil, true, nil
	}
	text, err := l.store.Event(ctx, rediskv.Caller{Organization: l.K.Org}, id, nil)
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
