package checks

import (
	"context"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/record"
	"tollgate/rediskv/webhooks"
)

// checkListedDeliveries compares entries of an endpoint's list of deliveries with the
// deliveries, which are kept for some time, and with the events that these are of.
func (w *walk) checkListedDeliveries(ctx context.Context, endpoint string, entries []entry) ([][]Finding, error) {
	hashes, places := make([]*redis.SliceCmd, len(entries)), make([]*redis.FloatCmd, len(entries))
	var kept *redis.XMessageSliceCmd
	var known *redis.BoolCmd
	if err := w.atOnce(ctx, "listed_deliveries", func(ctx context.Context, pipe redis.Pipeliner) {
		since := w.store.db.Now().Add(rediskv.Skew - webhooks.DeliveryLifetime)
		kept, known = pipe.XRangeN(ctx, w.k.Events(), rediskv.Milli(max(since, 1)), "+", 1), pipe.HExists(ctx, w.k.Webhooks(), endpoint)
		for i, e := range entries {
			hashes[i], places[i] = pipe.HMGet(ctx, w.k.Object(e.member), "sid"), pipe.ZScore(ctx, w.k.Deliveries(endpoint), e.member)
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(entries))
	if !known.Val() {
		return findings, nil // it was deleted
	}
	young := int64(0) // the first event whose deliveries have not expired
	for _, m := range kept.Val() {
		if e, err := eventlog.EventOf(w.k, m); err == nil {
			young = e.Sequence
		}
	}
	events := make([]*redis.XMessageSliceCmd, len(entries))
	if err := w.pipelined(ctx, "delivered_events", func(ctx context.Context, pipe redis.Pipeliner) {
		for i := range entries {
			if sid := record.FieldsIn(hashes[i].Val(), "sid")["sid"]; eventlog.Place(sid).Milli > 0 {
				events[i] = pipe.XRangeN(ctx, w.k.Events(), sid, sid, 1)
			}
		}
	}); err != nil {
		return nil, err
	}
	for i, e := range entries {
		if places[i].Err() != nil {
			continue // it has been taken out
		}
		found := func(format string, args ...any) {
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingDelivery, "delivery", e.member, format, args...)})
		}
		if hashes[i].Val()[0] == nil && young > 0 && e.score >= float64(young) {
			found("%s has it, and it is not there", endpoint)
		}
		if events[i] == nil {
			continue
		}
		for _, m := range events[i].Val() {
			if of, err := eventlog.EventOf(w.k, m); err == nil && places[i].Val() != float64(of.Sequence) {
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
	if err := w.timed(ctx, "index", func(ctx context.Context) (err error) {
		by := &redis.ZRangeBy{Min: "(" + place(float64(w.last)), Max: "+inf", Count: page}
		last, err = w.redis().ZRevRangeByScoreWithScores(ctx, w.k.Deliveries(endpoint), by).Result()
		return err
	}); err != nil {
		return err
	}
	return confirmed(ctx, w, entriesOf(last), func(ctx context.Context, entries []entry) ([][]Finding, error) {
		return w.checkListedDeliveries(ctx, endpoint, entries)
	})
}
