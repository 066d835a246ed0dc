package checks

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/record"
)

// queue is a queue of a partition, and what its members must be: why one does not
// belong there, or nothing.
type queue struct {
	key    string
	object string
	fields []string
	not    func(f rediskv.Fields) string
}

// queues walks through the queues of a partition: each entry has its object, which
// waits for its turn. That objects are in the queues is looked at with them.
func (s *Store) queues(ctx context.Context, partition int, w *Walk) error {
	for _, q := range []queue{
		{rediskv.DueKey(partition), "payment", []string{"v", "due", "st"}, func(f rediskv.Fields) string {
			if f["due"] == "" {
				return "it is " + f["st"]
			}
			return ""
		}},
		{rediskv.ReadyKey(partition), "webhook_endpoint", []string{"v", "st"}, func(f rediskv.Fields) string {
			if f["st"] != tollgate.WebhookActive {
				return "it is " + f["st"]
			}
			return ""
		}},
		{rediskv.CutoffsKey(partition), "merchant_account", []string{"v"}, func(rediskv.Fields) string { return "" }},
		{rediskv.PayoutsKey(partition), "payout", []string{"st", "step"}, func(f rediskv.Fields) string {
			if status := tollgate.PayoutStatus(f["st"]); f["step"] == string(tollgate.PayoutStepDone) || status == tollgate.PayoutStatusHeld || status == tollgate.PayoutStatusFailed {
				return "it is " + f["st"]
			}
			return ""
		}},
		{rediskv.ScheduleKey(partition), "activation", []string{"v"}, func(rediskv.Fields) string { return "" }},
	} {
		one := s.walk(w, rediskv.Space{})
		if err := one.scanned(ctx, q.key, func(ctx context.Context, members []string) error {
			for _, m := range members {
				org, id, _ := strings.Cut(m, "/")
				if w.Organization != "" && org != w.Organization {
					continue
				}
				one := s.walk(w, s.db.Space(org))
				if err := confirmed(ctx, one, []string{id}, func(ctx context.Context, _ []string) ([][]Finding, error) {
					findings, err := one.entry(ctx, q, m, id)
					return [][]Finding{findings}, err
				}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// entry compares one entry of a queue with its object.
func (w *walk) entry(ctx context.Context, q queue, member, id string) ([]Finding, error) {
	k := record.KindOf(w.K.Object(id))
	names := k.Names(q.fields)
	var hash *redis.SliceCmd
	var score *redis.FloatCmd
	if err := w.AtOnce(ctx, "queue_entry", func(ctx context.Context, pipe redis.Pipeliner) {
		hash, score = pipe.HMGet(ctx, w.K.Object(id), names...), pipe.ZScore(ctx, q.key, member)
	}); err != nil {
		return nil, err
	}
	f := record.FieldsIn(hash.Val(), names...)
	there := false
	for _, text := range f {
		there = there || text != ""
	}
	reason := "it is not there"
	if there {
		reason = q.not(k.Unfolded(f))
	}
	if score.Err() != nil || reason == "" {
		return nil, nil
	}
	at := place(score.Val())
	return []Finding{repairable(consistency.Found(consistency.FindingQueue, q.object, id, "its queue has it, and %s", reason), func(c *rediskv.Commit) {
		for _, name := range names {
			c.Still(f[name], "HGET", w.K.Object(id), name)
		}
		c.Still(at, "ZSCORE", q.key, member)
		c.Do("ZREM", q.key, member)
	}, "remove %s from %s", member, q.key)}, nil
}
