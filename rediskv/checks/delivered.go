package checks

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/webhooks"
)

// checkListedDeliveries compares entries of an endpoint's list of deliveries with the
// deliveries, which are kept for some time, and with the events that these are of.
func (w *walk) checkListedDeliveries(ctx context.Context, endpoint string, entries []entry) ([][]Finding, error) {
	hashes, places := make([]*redis.SliceCmd, len(entries)), make([]*redis.FloatCmd, len(entries))
	since := rediskv.Milli(max(w.store.db.Now().Add(rediskv.Skew-webhooks.DeliveryLifetime), 1))
	kept, err := streams.Range(ctx, w.DB, w.K.Events(), since, "+", 1)
	if err != nil {
		return nil, err
	}
	var known *redis.BoolCmd
	if err := w.AtOnce(ctx, "listed_deliveries", func(ctx context.Context, pipe redis.Pipeliner) {
		known = pipe.HExists(ctx, w.K.Webhooks(), endpoint)
		for i, e := range entries {
			hashes[i], places[i] = pipe.HMGet(ctx, w.K.Object(e.Member), record.KindOf(w.K.Object(e.Member)).Names([]string{"sid"})...), pipe.ZScore(ctx, w.K.Deliveries(endpoint), e.Member)
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(entries))
	if !known.Val() {
		return findings, nil // it was deleted
	}
	young := int64(0) // the first event whose deliveries have not expired
	for _, m := range kept {
		if e, err := eventlog.EventOf(w.K, m); err == nil {
			young = e.Sequence
		}
	}
	heads, events := make([]*redis.XMessageSliceCmd, len(entries)), make([]*streams.Asked, len(entries))
	if err := w.Pipelined(ctx, "delivered_events", func(ctx context.Context, pipe redis.Pipeliner) {
		for i := range entries {
			if sid := rediskv.VerifiedIn(w.K.Object(entries[i].Member), hashes[i].Val(), "sid")["sid"]; eventlog.Place(sid).Milli > 0 {
				heads[i], events[i] = pipe.XRangeN(ctx, w.K.Events(), sid, sid, 1), &streams.Asked{Log: w.K.Events(), First: sid, Last: sid, Count: 1}
			}
		}
	}); err != nil {
		return nil, err
	}
	var older []*streams.Asked
	for i, a := range events {
		if a == nil {
			continue
		}
		if a.Found = heads[i].Val(); len(a.Found) == 0 {
			older = append(older, a)
		}
	}
	if err := w.Timed(ctx, "delivered_events", func(ctx context.Context) error { return streams.Behind(ctx, w.Redis(), older) }); err != nil {
		return nil, err
	}
	for i, e := range entries {
		if places[i].Err() != nil {
			continue // it has been taken out
		}
		found := func(format string, args ...any) {
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingDelivery, "delivery", e.Member, format, args...)})
		}
		if !slices.ContainsFunc(hashes[i].Val(), func(v any) bool { return v != nil }) && young > 0 && e.Score >= float64(young) {
			found("%s has it, and it is not there", endpoint)
		}
		if events[i] == nil {
			continue
		}
		for _, m := range events[i].Found {
			if of, err := eventlog.EventOf(w.K, m); err == nil && places[i].Val() != float64(of.Sequence) {
				found("%s has it at %s, and its event %s has sequence %d", endpoint, place(places[i].Val()), of.ID, of.Sequence)
			}
		}
	}
	return findings, nil
}

// beyond looks at the end of an endpoint's list of deliveries, behind the last event when
// the walk began.
func (w *walk) beyond(ctx context.Context, endpoint string) error {
	var last []redis.Z
	if err := w.Timed(ctx, "index", func(ctx context.Context) (err error) {
		by := &redis.ZRangeBy{Min: "(" + place(float64(w.last)), Max: "+inf", Count: page}
		last, err = w.Redis().ZRevRangeByScoreWithScores(ctx, w.K.Deliveries(endpoint), by).Result()
		return err
	}); err != nil {
		return err
	}
	return confirmed(ctx, w, look.EntriesOf(last), func(ctx context.Context, entries []entry) ([][]Finding, error) {
		return w.checkListedDeliveries(ctx, endpoint, entries)
	})
}
