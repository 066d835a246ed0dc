// Package sums says of one record, by its key, whether it is what was written: by its
// checksum, and where scripts write what has none, by its form.
package sums

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/record"
	"tollgate/rediskv/webhooks"
)

// textKey is what follows the organization in the key of a record that is a JSON text.
var textKey = regexp.MustCompile(`^(tkt|cap|rfd)_\w+$|^(per|rs)_\w+:\d+$|^tree(:his_\w+:\d+:\d+)?$|^postings$`)

// Ask queues the reading of a record, and returns what says whether it is what was
// written; nil for a key of no record.
func Ask(ctx context.Context, pipe redis.Pipeliner, key, name string) func() error {
	switch {
	case record.KindOf(key) != nil:
		hash := pipe.HGetAll(ctx, key)
		return func() error { return cmpErr(hash, func() error { return checkHash(key, hash.Val()) }) }
	case strings.HasPrefix(name, tollgate.PrefixDelivery) && strings.HasSuffix(name, ":att"):
		attempts, delivery := pipe.HGetAll(ctx, key), pipe.HGetAll(ctx, strings.TrimSuffix(key, ":att"))
		return func() error {
			return cmpErr(attempts, func() error {
				whole := record.Whole(attempts.Val())
				return errors.Join(checkAttempts(key, whole), webhooks.CheckLast(key, delivery.Val(), whole))
			})
		}
	case strings.HasPrefix(name, "idem:"):
		text := pipe.Get(ctx, key)
		return func() error { return cmpErr(text, func() error { return record.CheckRequest(key, text.Val()) }) }
	case textKey.MatchString(name):
		text := pipe.Get(ctx, key)
		return func() error { return cmpErr(text, func() error { return record.CheckText(key, text.Val()) }) }
	case strings.HasSuffix(name, ":divergences"), name == "tree:checkpoints":
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
	is := record.Verified(key, f)
	return errors.Join(record.Check(is[record.Field]), checkScripted(key, is), checkWithin(key, f, is))
}

// checkWithin looks at the attempts that stand in the hash of their delivery, of which f are
// the fields as they are stored, and at whether all names are those of what one has.
func checkWithin(key string, f, is map[string]string) (err error) {
	k := record.KindOf(key)
	if _, within := f[record.FoldField]; k.Name != "delivery" || !within {
		return nil
	}
	attempts := map[string]string{}
	for name, text := range f {
		switch {
		case record.IsNumbered(name):
			attempts[name] = text
		case !k.Knows(name):
			err = errors.Join(err, fmt.Errorf("it has %q", name))
		}
	}
	key, attempts = webhooks.AttemptsOf(key), record.Whole(attempts)
	return errors.Join(err, checkAttempts(key, attempts), webhooks.CheckLast(key, is, attempts))
}

// checkAttempts looks at those that were recorded; one that is under way is no record.
func checkAttempts(key string, f map[string]string) (err error) {
	for _, number := range slices.Sorted(maps.Keys(f)) {
		if n, failed := strconv.Atoi(number); failed != nil || n < 1 {
			err = errors.Join(err, errors.New("attempt "+strconv.Quote(number)))
		}
		if webhooks.IsRecorded(f[number]) {
			err = errors.Join(err, record.CheckText(key+":"+number, f[number]))
		}
	}
	return err
}
