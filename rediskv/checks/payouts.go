package checks

import (
	"context"
	"maps"
	"math"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// checkPayouts reads payouts with all that they pay.
func (w *walk) checkPayouts(ctx context.Context, ids []string) ([][]Finding, error) {
	findings := make([][]Finding, len(ids))
	for i, id := range ids {
		for range settles {
			found, changed, err := w.payout(ctx, id)
			if err != nil {
				return nil, err
			}
			if !changed {
				findings[i] = found
				break
			}
		}
	}
	return findings, nil
}

// payout reads a payout and what it pays, and whether it has gone on meanwhile.
func (w *walk) payout(ctx context.Context, id string) (findings []Finding, changed bool, err error) {
	var hash *redis.MapStringStringCmd
	var own *located
	var queued *redis.FloatCmd
	ask := func(ctx context.Context, pipe redis.Pipeliner) {
		hash, queued = pipe.HGetAll(ctx, w.K.Object(id)), pipe.ZScore(ctx, w.K.Payouts, w.K.Org+"/"+id)
		if own != nil {
			own = w.locate(ctx, pipe, own.Indexed, own.fields())
		} else {
			own = w.askTransaction(ctx, pipe, ledger.Indexed{ID: tollgate.PayoutTransactionOf(id)})
		}
	}
	// The second time where its transaction is to be is known.
	for range 2 {
		if err := w.AtOnce(ctx, "payout", ask); err != nil {
			return nil, false, err
		}
	}
	f := rediskv.Fields(hash.Val())
	if len(f) == 0 {
		return plain([]consistency.Finding{consistency.Found(consistency.FindingPayout, "payout", id, "its transaction is there, and it is not")}), false, nil
	}
	p, err := ledger.StoredPayoutOf(w.K, id, f)
	if err != nil {
		return plain(consistency.FoundDamage(err)), false, nil
	}
	x, findings := w.located(own)
	r := consistency.PayoutRecords{StoredPayout: p.StoredPayout, Changed: p.Fields["sum"] != "" && !p.Right, Sum: p.NewTally(), Own: x.Transaction}
	for n, g := range p.Groups {
		if err := w.members(ctx, p.MerchantAccountID, p.Currency, g.Date, math.MaxInt64, func(x *tollgate.Transaction) { r.Add(n, x) }); err != nil {
			return nil, false, err
		}
	}
	var now map[string]string
	if err := w.Timed(ctx, "payout", func(ctx context.Context) (err error) {
		now, err = w.Redis().HGetAll(ctx, w.K.Object(id)).Result()
		now = record.Verified(w.K.Object(id), now)
		return err
	}); err != nil {
		return nil, false, err
	}
	if !maps.Equal(now, f) || own.moved() {
		return nil, true, nil
	}
	findings = append(findings, plain(r.Check())...)
	return append(findings, w.underWay(p, queued.Err() == nil)...), false, nil
}

// underWay compares a payout with its place among those that are carried on.
func (w *walk) underWay(p *ledger.StoredPayout, there bool) []Finding {
	waits := p.Step != tollgate.PayoutStepDone && p.Status != tollgate.PayoutStatusHeld && p.Status != tollgate.PayoutStatusFailed
	if waits == there {
		return nil
	}
	key, member, hash := w.K.Payouts, w.K.Org+"/"+p.ID, w.K.Object(p.ID)
	still := func(c *rediskv.Commit) {
		c.Still(p.Fields["st"], "HGET", hash, "st")
		c.Still(p.Fields["step"], "HGET", hash, "step")
	}
	if !waits {
		return []Finding{repairable(consistency.Found(consistency.FindingQueue, "payout", p.ID, "it is %s, and among those that are carried on", p.Status), func(c *rediskv.Commit) {
			still(c)
			c.Do("ZREM", key, member)
		}, "remove %s from %s", member, key)}
	}
	at := rediskv.Milli(max(w.store.db.Now(), p.Lease))
	return []Finding{repairable(consistency.Found(consistency.FindingQueue, "payout", p.ID, "it is %s (%s), and not among those that are carried on", p.Status, p.Step), func(c *rediskv.Commit) {
		still(c)
		c.Still("", "ZSCORE", key, member)
		c.Do("ZADD", key, at, member)
	}, "add %s to %s", member, key)}
}
