package archive

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
)

const (
	mostOrganizations = 2000 // of which payments are in one pack
	scanPage          = 1000 // members of an index that are looked at in one round trip
)

// chosen is a payment that may go into the next pack.
type chosen struct {
	id  string
	org string
}

// choice is what a turn looks at in a partition.
type choice struct {
	payments []chosen         // in the order of their identifiers
	through  map[string]int64 // by organization: the place behind which the next turn goes on
	full     bool             // there are more than one pack has
	oldest   tollgate.Instant // from when on the age of the oldest counts
}

// choose looks for payments of organizations that were made before a moment, from where the last turn has
// come, and for those that have been put back or were not at an end then.
func (s *Store) choose(ctx context.Context, orgs []string, before tollgate.Instant) (*choice, error) {
	slices.Sort(orgs)
	c := &choice{through: map[string]int64{}, oldest: math.MaxInt64}
	for _, org := range orgs {
		if len(c.payments) >= s.Rows || len(c.through) >= mostOrganizations {
			c.full = true
			break
		}
		if err := s.chooseOf(ctx, c, org, before); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.payments, func(a, b chosen) int { return strings.Compare(a.id, b.id) })
	c.payments = slices.CompactFunc(c.payments, func(a, b chosen) bool { return a.id == b.id })
	return c, nil
}

func (s *Store) chooseOf(ctx context.Context, c *choice, org string, before tollgate.Instant) error {
	k := s.db.Space(org)
	var progress *redis.StringCmd
	var returned *redis.ZSliceCmd
	if err := s.db.Timed(ctx, "archive_progress", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		progress = pipe.HGet(ctx, ledger.ArchivedKey(k), "through")
		returned = pipe.ZRangeByScoreWithScores(ctx, returnedKey(k), &redis.ZRangeBy{Min: "-inf", Max: "(" + strconv.FormatInt(int64(before), 10), Count: int64(s.Rows)})
		return rediskv.Answered(pipe.Exec(ctx))
	}); err != nil {
		return err
	}
	for _, z := range returned.Val() {
		id, _ := z.Member.(string)
		c.payments = append(c.payments, chosen{id, org})
		c.oldest = min(c.oldest, tollgate.Instant(z.Score))
	}
	through, _ := strconv.ParseInt(progress.Val(), 10, 64)
	for at := through; ; {
		found, err := ledger.InRedis(ctx, s.db, k, tollgate.PaymentStatuses, false, at+1, ledger.Highest, scanPage)
		if err != nil {
			return err
		}
		for _, m := range found {
			id, made, is := authorized(m)
			if is && (made >= before || len(c.payments) >= s.Rows) {
				c.full = c.full || made < before
				return nil
			}
			if at = m.Position; is {
				c.payments = append(c.payments, chosen{id, org})
				c.oldest = min(c.oldest, made)
			}
			c.through[org] = at
		}
		if len(found) < scanPage {
			return nil
		}
	}
}

// authorized is the payment that an entry of the list of transactions is the authorization
// of, and when it was made; false for any other transaction, and for a payment whose parts
// are not numbered: such a one, of an early release, stays in Redis.
func authorized(m ledger.Indexed) (id string, made tollgate.Instant, is bool) {
	_, number, ok := tollgate.NumberIn(m.ID)
	if !ok || number != tollgate.FirstNumber || !m.Shared {
		return "", 0, false
	}
	at, ok := tollgate.IDTime(m.ID)
	return tollgate.PrefixPayment + rediskv.Unprefixed(m.ID), tollgate.At(at), ok
}

// due reports whether it is time to make a pack: of as many payments as it can have, or of
// some that are a tenth older than asked.
func (c *choice) due(before tollgate.Instant, after time.Duration) bool {
	return len(c.payments) > 0 && (c.full || c.oldest < before.Add(-slack(after)))
}
