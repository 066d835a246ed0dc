package audittree

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/streams"
)

// PendingAudits names the organizations of a partition whose audit record has entries
// that are not sealed, and those of which it cannot be known.
func (s *Store) PendingAudits(ctx context.Context, partition int) (pending []string, err error) {
	orgs, err := s.db.OrganizationsIn(ctx, partition)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(orgs, rediskv.ReadTogether) {
		trees, newest := make([]*redis.StringCmd, len(some)), make([]*redis.XMessageSliceCmd, len(some))
		if err := s.db.Timed(ctx, "pending_audits", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			for i, org := range some {
				k := s.db.Space(org)
				trees[i], newest[i] = pipe.Get(ctx, k.AuditTree()), pipe.XRevRangeN(ctx, k.Audit(), "+", "-", 1)
			}
			if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			return nil
		}); err != nil {
			return nil, err
		}
		for i, org := range some {
			t, err := treesOf(s.db.Space(org), trees[i].Val())
			if entry := newest[i].Val(); err != nil || len(entry) == 1 && streams.Less(t.Until(), entry[0].ID) {
				pending = append(pending, org)
			}
		}
	}
	return pending, nil
}

// Unsealed are the next entries behind a place of an organization's audit record.
func (s *Store) Unsealed(ctx context.Context, org, after string, limit int) ([]redis.XMessage, error) {
	return streams.Range(ctx, s.db, s.db.Space(org).Audit(), "("+after, "+", limit)
}

// FirstAudit is the first entry of an organization's audit record that is not older than
// a moment; one without a place where there is none.
func (s *Store) FirstAudit(ctx context.Context, org string, keep tollgate.Instant) (m redis.XMessage, err error) {
	found, err := streams.Range(ctx, s.db, s.db.Space(org).Audit(), placeOf(keep), "+", 1)
	if err == nil && len(found) == 1 {
		m = found[0]
	}
	return m, err
}

// OlderAudit says whether an organization's audit record has entries that are older than
// a moment.
func (s *Store) OlderAudit(ctx context.Context, org string, keep tollgate.Instant) (bool, error) {
	found, err := streams.Range(ctx, s.db, s.db.Space(org).Audit(), "-", "("+placeOf(keep), 1)
	return len(found) > 0, err
}

// placeOf is the first place in a log at a moment.
func placeOf(at tollgate.Instant) string { return strconv.FormatInt(max(int64(at), 0), 10) + "-0" }

// PlaceTime is when what is at a place in a log was written, by Redis' time.
func PlaceTime(place string) tollgate.Instant {
	milli, _, _ := strings.Cut(place, "-")
	n, _ := strconv.ParseInt(milli, 10, 64) // Redis' own
	return tollgate.Instant(n)
}

// Holds says whether an entry is among those that the tree has sealed.
func (t *Tree) Holds(m redis.XMessage) bool {
	return m.ID != "" && streams.Less(t.After, m.ID) && !streams.Less(t.Until, m.ID)
}

// Precedes says whether all entries of the tree are before one.
func (t *Tree) Precedes(m redis.XMessage) bool { return m.ID == "" || streams.Less(t.Until, m.ID) }

// Likely is where the leaf of an entry is by its number: numbers are given without a gap.
func (t *Tree) Likely(number int64) int64 {
	index := number - t.First
	if t.Seam != "" {
		index++
	}
	return index
}

// Entry is an entry of a log, at its place.
type Entry = redis.XMessage

// Text is the exact text of an entry.
func Text(m redis.XMessage) string { return rediskv.Text(m, "b") }
