package checks

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/record"
)

// textKey is what follows the organization in the key of a record that is a JSON text.
var textKey = regexp.MustCompile(`^(tkt|cap|rfd)_\w+$|^(per|rs)_\w+:\d+$`)

// checkSums compares the records among keys of the organization with their checksums.
// The entries of its logs are compared on the way through them.
func (w *walk) checkSums(ctx context.Context, names []string) ([][]Finding, error) {
	faults := make([]func() error, len(names))
	err := w.timed(ctx, "records", func(ctx context.Context) error {
		pipe := w.redis().Pipeline()
		for i, name := range names {
			key := w.k.Organization()
			if name != "" {
				key = w.k.Object(name)
			}
			faults[i] = ask(ctx, pipe, key, name)
		}
		if pipe.Len() == 0 {
			return nil
		}
		if _, err := pipe.Exec(ctx); err != nil && !peer.IsReply(err) && !errors.Is(err, redis.Nil) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(names))
	for i, name := range names {
		if faults[i] == nil {
			continue
		}
		if fault := faults[i](); fault != nil {
			key := w.k.Organization()
			if name != "" {
				key = w.k.Object(name)
			}
			_, object, id, _ := record.ObjectAt(key)
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingDamaged, object, id, "%s: %v", key, fault)})
		}
	}
	return findings, nil
}

// ask queues the reading of a record, and returns what says whether it is what was
// written; nil for a key of no record.
func ask(ctx context.Context, pipe redis.Pipeliner, key, name string) func() error {
	switch {
	case record.KindOf(key) != nil:
		hash := pipe.HGetAll(ctx, key)
		return func() error { return cmpErr(hash, func() error { return checkHash(key, hash.Val()) }) }
	case strings.HasPrefix(name, tollgate.PrefixDelivery) && strings.HasSuffix(name, ":att"):
		attempts := pipe.HGetAll(ctx, key)
		return func() error { return cmpErr(attempts, func() error { return checkAttempts(key, attempts.Val()) }) }
	case strings.HasPrefix(name, "idem:"):
		text := pipe.Get(ctx, key)
		return func() error { return cmpErr(text, func() error { return record.CheckRequest(key, text.Val()) }) }
	case textKey.MatchString(name):
		text := pipe.Get(ctx, key)
		return func() error { return cmpErr(text, func() error { return record.CheckText(key, text.Val()) }) }
	case strings.HasSuffix(name, ":divergences"):
		rows := pipe.XRange(ctx, key, "-", "+")
		return func() error {
			return cmpErr(rows, func() (err error) {
				for _, m := range rows.Val() {
					err = errors.Join(err, record.CheckRow(key, m.Values))
				}
				return err
			})
		}
	}
	return askNumbers(ctx, pipe, key, name)
}

// cmpErr is the fault of a record that was read. One that has gone meanwhile has none;
// a key that holds something else has.
func cmpErr(read redis.Cmder, check func() error) error {
	if err := read.Err(); err != nil {
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return err
		}
		return nil
	}
	return check()
}

func checkHash(key string, f map[string]string) error {
	if sum := f[record.Golden]; sum != "" && sum != record.GoldenSum(key, f["golden"]) {
		return errors.New("its golden cases are not what was written")
	}
	return errors.Join(record.Check(record.Verified(key, f)[record.Field]), checkScripted(key, f))
}

// checkAttempts looks at those that were recorded; one that is under way is no record.
func checkAttempts(key string, f map[string]string) (err error) {
	for _, number := range slices.Sorted(maps.Keys(f)) {
		if n, failed := strconv.Atoi(number); failed != nil || n < 1 {
			err = errors.Join(err, errors.New("attempt "+strconv.Quote(number)))
		}
		if strings.HasPrefix(f[number], "{") {
			err = errors.Join(err, record.CheckText(key+":"+number, f[number]))
		}
	}
	return err
}
