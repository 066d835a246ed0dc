package look

import (
	"context"
	"slices"
	"sort"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/ledger"
)

// Page is how many entries of a list, and how many other records, are read in one round trip.
const Page = 50

// Entry is a member of an index of transactions, or of deliveries, and its place there.
type Entry struct {
	Member string  // the transaction's id without its prefix
	Score  float64 // an integer, unless it is damaged: a walk that rounds it comes to it again
	Cold   bool    // the archive has it, and Redis does not
}

// Of is the transaction.
func (e Entry) Of() ledger.Indexed { return ledger.MemberAt(e.Member, int64(e.Score)) }

// ID is that of the transaction.
func (e Entry) ID() string { return e.Of().ID }

// EntriesOf are members with their scores.
func EntriesOf(found []redis.Z) (entries []Entry) {
	for _, z := range found {
		member, _ := z.Member.(string)
		entries = append(entries, Entry{member, z.Score, false})
	}
	return entries
}

// Entries are the next page of a list in Redis, behind a place and up to another, with all
// that share the last one.
func Entries(ctx context.Context, r Reader, key string, after float64, upTo int64) (entries []Entry, err error) {
	read := func(from string, to string, count int64) error {
		return r.Timed(ctx, "index", func(ctx context.Context) error {
			found, err := r.Redis().ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: from, Max: to, Count: count}).Result()
			for _, e := range EntriesOf(found) {
				if !slices.Contains(entries, e) {
					entries = append(entries, e)
				}
			}
			return err
		})
	}
	if err := read("("+Place(after), strconv.FormatInt(upTo, 10), Page); err != nil || len(entries) < Page {
		return entries, err
	}
	last := Place(entries[len(entries)-1].Score)
	return entries, read(last, last, Page)
}

// Listed are Entries of an index of transactions, with what the archive has of it.
func Listed(ctx context.Context, r Reader, l *ledger.Store, key string, after float64, upTo int64) ([]Entry, error) {
	entries, err := Entries(ctx, r, key, after, upTo)
	if err != nil {
		return nil, err
	}
	if len(entries) >= Page {
		upTo = int64(entries[len(entries)-1].Score)
	}
	cold, err := cold(ctx, r, l, key, int64(after)+1, upTo)
	if err != nil || len(cold) == 0 {
		return entries, err
	}
	if last := float64(cold[len(cold)-1].Position); len(cold) == Page {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Score > last })
	}
	for _, m := range cold {
		if e := (Entry{m.Member(), float64(m.Position), false}); !slices.Contains(entries, e) {
			e.Cold = true
			entries = append(entries, e)
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Score < entries[j].Score })
	return entries, nil
}

// cold are the next entries upwards that an archive has of a list of transactions, between
// two places, with both: a page at most.
func cold(ctx context.Context, r Reader, l *ledger.Store, index string, low, high int64) (members []ledger.Indexed, err error) {
	var fields *redis.IntCmd
	if err := r.Pipelined(ctx, "archived", func(ctx context.Context, pipe redis.Pipeliner) {
		fields = pipe.HLen(ctx, ledger.ArchivedKey(r.K))
	}); err != nil {
		return nil, err
	}
	members, err = l.Beyond(ctx, r.K, fields.Val(), nil, ledger.Listing{Lists: []string{index}, Between: [][2]int64{{low, high}}, Most: Page})
	return members[:min(len(members), Page)], err
}
