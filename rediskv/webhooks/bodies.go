package webhooks

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/streams"
)

// neighbours is how far apart, in milliseconds, two events may be that are
// fetched as one range of the log.
const neighbours = 200

// stretch is a part of an organization's log that holds events to be sent.
type stretch struct {
	org   string
	wants []eventlog.Position
	reply *redis.XMessageSliceCmd
}

// ReadBodies fetches the frozen events to be sent; a ping has its own. After an
// error nothing must be attempted: the work is Unsent, and the attempts are
// unknown. Events that were committed shortly after one another are one range,
// and an event that goes to several endpoints is read once.
func (s *Store) ReadBodies(ctx context.Context, work []Work) error {
	stretches := stretchesOf(work)
	if len(stretches) == 0 {
		return nil
	}
	type entry struct{ org, id string }
	found := map[entry]redis.XMessage{}
	var behind []*streams.Asked
	err := s.db.Timed(ctx, "read_bodies", func(ctx context.Context) error {
		for len(stretches) > 0 {
			pipe := s.db.Redis.Pipeline()
			for _, r := range stretches {
				first, last := r.wants[0].Stream(), r.wants[len(r.wants)-1].Stream()
				r.reply = pipe.XRangeN(ctx, s.db.Space(r.org).Events(), first, last, int64(2*len(r.wants)))
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			var left []*stretch
			for _, r := range stretches {
				for _, m := range r.reply.Val() {
					found[entry{r.org, m.ID}] = m
				}
				// Between them were too many others, or they are older than the head.
				for _, p := range r.wants {
					switch _, ok := found[entry{r.org, p.Stream()}]; {
					case !ok && len(r.wants) > 1:
						left = append(left, &stretch{org: r.org, wants: []eventlog.Position{p}})
					case !ok:
						behind = append(behind, &streams.Asked{Log: s.db.Space(r.org).Events(), First: p.Stream(), Last: p.Stream(), Count: 1})
					}
				}
			}
			stretches = left
		}
		return s.recent.Behind(ctx, s.db.Redis, behind)
	})
	if err != nil {
		return err
	}
	older := map[entry]redis.XMessage{} // by the log
	for _, a := range behind {
		for _, m := range a.Found {
			older[entry{a.Log, m.ID}] = m
		}
	}
	for i, w := range work {
		k := s.db.Space(w.Organization)
		m, ok := found[entry{w.Organization, w.place}]
		if !ok {
			m, ok = older[entry{k.Events(), w.place}]
		}
		if !ok && w.place != "" {
			if m, ok, err = s.trimmed(ctx, k, w.place); err != nil { // the others need not wait for it
				work[i].Unread = true
				s.db.Log.Warn("an event to be sent cannot be read in the archive", "organization", w.Organization, "event", w.EventID, "error", err)
			}
		}
		if !ok {
			continue
		}
		if _, err := eventlog.EventOf(k, m); s.db.Noticed(ctx, k, err) != nil {
			work[i].Damaged = true
			continue
		}
		if rediskv.Text(m, "i") != w.EventID { // the log was cut, and another event has its place
			continue
		}
		work[i].Body, work[i].Trace = []byte(rediskv.Text(m, "b")), rediskv.Text(m, "p")
	}
	return nil
}

// trimmed is an entry of the log of events that was trimmed, and is in a pack.
func (s *Store) trimmed(ctx context.Context, k rediskv.Space, place string) (m redis.XMessage, ok bool, err error) {
	found, err := s.events.Trimmed(ctx, k, eventlog.LogEvents, streams.Previous(place), place, 1)
	if err != nil || len(found) == 0 {
		return m, false, err
	}
	return found[0], true, nil
}

func stretchesOf(work []Work) (all []*stretch) {
	byOrg := map[string][]eventlog.Position{}
	for _, w := range work {
		if w.place != "" {
			byOrg[w.Organization] = append(byOrg[w.Organization], eventlog.Place(w.place))
		}
	}
	for org, places := range byOrg {
		compare := func(a, b eventlog.Position) int {
			return cmp.Or(cmp.Compare(a.Milli, b.Milli), cmp.Compare(a.Seq, b.Seq))
		}
		sort.Slice(places, func(i, j int) bool { return compare(places[i], places[j]) < 0 })
		places = slices.Compact(places)
		for start, i := 0, 1; i <= len(places); i++ {
			if i == len(places) || places[i].Milli-places[i-1].Milli > neighbours {
				all = append(all, &stretch{org: org, wants: places[start:i]})
				start = i
			}
		}
	}
	return all
}
