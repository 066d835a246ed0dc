package rules

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// ReadQuotas reads an organization's counts, whose revision the commit compares,
// so that two at once exceed nothing. Where they are not kept yet, rules and
// perimeters are counted as they are.
func (s *Store) ReadQuotas(ctx context.Context, k rediskv.Space) (q tollgate.Quotas, err error) {
	err = s.db.Timed(ctx, "read_quotas", func(ctx context.Context) error {
		kept, err := s.db.Redis.HGetAll(ctx, k.Quotas()).Result()
		if err != nil {
			return err
		}
		if len(kept) > 0 {
			f := rediskv.Fields(record.Verified(k.Quotas(), kept))
			q = tollgate.Quotas{Rules: f.Int("rules"), Perimeters: f.Int("perimeters"), Revision: f.Int("v")}
			return s.db.DamagedAt(ctx, k.Quotas(), record.Check(f[rediskv.EnvelopeField]))
		}
		pipe := s.db.Redis.Pipeline()
		rules, perimeters := pipe.ZRange(ctx, k.Rules(), 0, -1), pipe.SCard(ctx, k.Perimeters())
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		q = tollgate.Quotas{Rules: namesOf(rules), Perimeters: perimeters.Val()}
		return nil
	})
	return q, err
}

// namesOf counts the names of rules in their index, which is in order.
func namesOf(members *redis.StringSliceCmd) (n int64) {
	last := ""
	for _, m := range members.Val() {
		if name, _, _ := strings.Cut(m, "@v"); name != last {
			n++
			last = name
		}
	}
	return n
}

// Quotas writes the counts, read at their revision.
func Quotas(c *rediskv.Commit, q tollgate.Quotas) {
	var f rediskv.Pairs
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Int("v", q.Revision+1)
	f.Int("rules", q.Rules)
	f.Int("perimeters", q.Perimeters)
	c.Hash(c.Space.Quotas(), rediskv.Revision(q.Revision), f)
}
