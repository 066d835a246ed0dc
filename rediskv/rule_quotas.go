package rediskv

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// readQuotas reads an organization's counts, whose revision the commit compares,
// so that two at once exceed nothing. Where they are not kept yet, rules and
// perimeters are counted as they are.
func (s *Store) readQuotas(ctx context.Context, k space) (q tollgate.Quotas, err error) {
	err = s.timed(ctx, "read_quotas", func(ctx context.Context) error {
		kept, err := s.client.HGetAll(ctx, k.quotas()).Result()
		if err != nil || len(kept) > 0 {
			f := fields(kept)
			q = tollgate.Quotas{Rules: f.int("rules"), Perimeters: f.int("perimeters"), Revision: f.int("v")}
			return err
		}
		pipe := s.client.Pipeline()
		rules, perimeters := pipe.ZRange(ctx, k.rules(), 0, -1), pipe.SCard(ctx, k.perimeters())
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

// quotas writes the counts, read at their revision.
func (c *commit) quotas(q tollgate.Quotas) {
	var f pairs
	f.int("v", q.Revision+1)
	f.int("rules", q.Rules)
	f.int("perimeters", q.Perimeters)
	c.hash(c.space.quotas(), revision(q.Revision), f)
}
