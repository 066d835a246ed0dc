package checks

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/ledger"
)

// entry is a member of an index of transactions, and its place there.
type entry struct {
	member string  // the transaction's id without its prefix
	score  float64 // an integer, unless it is damaged: a walk that rounds it comes to it again
}

func (e entry) of() ledger.Indexed { return ledger.MemberAt(e.member, int64(e.score)) }

func (e entry) id() string { return e.of().ID }

// place is a score as a decimal number, which Redis reads as exactly that score.
func place(score float64) string { return look.Place(score) }

func entriesOf(found []redis.Z) (entries []entry) {
	for _, z := range found {
		member, _ := z.Member.(string)
		entries = append(entries, entry{member, z.Score})
	}
	return entries
}

// entries is the next page behind a place and up to another, with all that share the
// last one.
func (w *walk) entries(ctx context.Context, key string, after float64, upTo int64) (entries []entry, err error) {
	read := func(from string, to string, count int64) error {
		return w.Timed(ctx, "index", func(ctx context.Context) error {
			found, err := w.Redis().ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: from, Max: to, Count: count}).Result()
			for _, e := range entriesOf(found) {
				if !slices.Contains(entries, e) {
					entries = append(entries, e)
				}
			}
			return err
		})
	}
	if err := read("("+place(after), strconv.FormatInt(upTo, 10), page); err != nil || len(entries) < page {
		return entries, err
	}
	last := place(entries[len(entries)-1].score)
	return entries, read(last, last, page)
}
