package checks

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/record"
)

// exports walks through the exports that nobody has ended, and through the list of
// all: what is unfinished is in both and in the stream that workers read.
func (w *walk) exports(ctx context.Context) error {
	var unfinished []string
	if err := w.Timed(ctx, "exports", func(ctx context.Context) (err error) {
		unfinished, err = w.Redis().SMembers(ctx, w.K.Unfinished()).Result()
		return err
	}); err != nil {
		return err
	}
	for some := range slices.Chunk(unfinished, page) {
		if err := confirmed(ctx, w, some, w.checkExports); err != nil {
			return err
		}
		if err := w.passed(ctx, "exports", len(some), ""); err != nil {
			return err
		}
	}
	return w.scanned(ctx, w.K.AllExports(), func(ctx context.Context, ids []string) error { return confirmed(ctx, w, ids, w.checkExports) })
}

func (w *walk) checkExports(ctx context.Context, ids []string) ([][]Finding, error) {
	hashes, members := make([]*redis.SliceCmd, len(ids)), make([]*redis.BoolCmd, len(ids))
	if err := w.AtOnce(ctx, "exports", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, id := range ids {
			hashes[i], members[i] = pipe.HMGet(ctx, w.K.Object(id), "st", "entry"), pipe.SIsMember(ctx, w.K.Unfinished(), id)
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(ids))
	for i, id := range ids {
		f := record.FieldsIn(hashes[i].Val(), "st", "entry")
		waits := f["st"] == string(tollgate.ExportStatusPending) || f["st"] == string(tollgate.ExportStatusRunning)
		if waits != members[i].Val() {
			findings[i] = []Finding{w.unfinished(id, f, waits)}
		}
		if made, ok := tollgate.IDTime(id); f["st"] == "" && !members[i].Val() && (!ok || tollgate.At(made).Add(exports.Kept) > w.store.db.Now()) {
			findings[i] = append(findings[i], plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "export", id, "the list of exports has it, and it is not there")})...)
		}
		if !waits {
			continue
		}
		var entries []redis.XMessage
		key := rediskv.ExportsKey(w.K.Partition)
		if err := w.Timed(ctx, "exports", func(ctx context.Context) (err error) {
			if f["entry"] != "" {
				entries, err = w.Redis().XRangeN(ctx, key, f["entry"], f["entry"], 1).Result()
			}
			return err
		}); err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			findings[i] = append(findings[i], repairable(consistency.Found(consistency.FindingQueue, "export", id, "it is %s, and no worker is told of it", f["st"]), func(c *rediskv.Commit) {
				c.Still(f["st"], "HGET", w.K.Object(id), "st")
				c.Still(f["entry"], "HGET", w.K.Object(id), "entry")
				c.Kept(w.K.Object(id), "entry", "XADD", key, "*", "o", w.K.Org, "e", id)
			}, "add %s to %s", id, key))
		}
	}
	return findings, nil
}

// unfinished is an export that is not where its status says.
func (w *walk) unfinished(id string, f rediskv.Fields, waits bool) Finding {
	still := func(c *rediskv.Commit) { c.Still(f["st"], "HGET", w.K.Object(id), "st") }
	if waits {
		return repairable(consistency.Found(consistency.FindingIndex, "export", id, "it is %s, and not among the unfinished ones", f["st"]), func(c *rediskv.Commit) {
			still(c)
			c.Do("SADD", w.K.Unfinished(), id)
		}, "add %s to %s", id, w.K.Unfinished())
	}
	return repairable(consistency.Found(consistency.FindingIndex, "export", id, "it is among the unfinished ones, and is %s", orGone(f["st"])), func(c *rediskv.Commit) {
		still(c)
		c.Do("SREM", w.K.Unfinished(), id)
	}, "remove %s from %s", id, w.K.Unfinished())
}

func orGone(status string) string {
	if status == "" {
		return "gone"
	}
	return status
}
