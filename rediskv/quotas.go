package rediskv

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// quotas are an organization's counts of what nothing else counts. The commit
// compares their revision, so that two at once exceed nothing.
type quotas struct {
	fields
	key string
}

// readQuotas reads them. Where they are not kept yet, rules and perimeters are
// counted as they are.
func (s *Store) readQuotas(ctx context.Context, k space) (q quotas, err error) {
	q.key = k.quotas()
	err = s.timed(ctx, "read_quotas", func(ctx context.Context) error {
		var err error
		var kept map[string]string
		if kept, err = s.client.HGetAll(ctx, q.key).Result(); err != nil || len(kept) > 0 {
			q.fields = kept
			return err
		}
		pipe := s.client.Pipeline()
		rules, perimeters := pipe.ZRange(ctx, k.rules(), 0, -1), pipe.SCard(ctx, k.perimeters())
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		q.fields = fields{"rules": strconv.FormatInt(namesOf(rules), 10), "perimeters": strconv.FormatInt(perimeters.Val(), 10)}
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

// with is the counts with so many more of one.
func (q quotas) with(name string, more int64) hashWrite {
	f := pairs{}
	f.int("v", q.int("v")+1)
	for _, counted := range []string{"rules", "perimeters"} {
		n := q.int(counted)
		if counted == name {
			n += more
		}
		f.int(counted, n)
	}
	return hashWrite{key: q.key, expected: q.fields["v"], fields: f}
}

// perimeterQuota counts the versions that are written.
func (p *plan) perimeterQuota(ctx context.Context) error {
	var more int64
	for _, c := range p.changes {
		if c.Kind == "perimeter" {
			more++
		}
	}
	if more == 0 {
		return nil
	}
	q, err := p.store.readQuotas(ctx, p.space)
	if err != nil {
		return err
	}
	if q.int("perimeters")+more > tollgate.MaxPerimeterVersions {
		return tollgate.QuotaExceeded("perimeters", "An organization has at most %d versions of perimeters.", tollgate.MaxPerimeterVersions)
	}
	p.hashes = append(p.hashes, q.with("perimeters", more))
	return nil
}
