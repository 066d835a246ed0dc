package sums

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/record"
	"tollgate/rediskv/webhooks"
)

// plainNumbers are hashes without a checksum that have numbers: of which names, by
// what the key ends in. With nil, all are.
var plainNumbers = []struct {
	end   string
	names []string
}{
	{"grants", []string{"v"}},
	{"webhooks", []string{"v"}},
	{"seq", []string{"event", "audit"}},
	{"exports:sizes", nil},
	{"damaged", nil},
	{":totals", nil},
}

// askNumbers queues the reading of a hash of numbers, and returns what says whether
// they are; nil for any other key.
func askNumbers(ctx context.Context, pipe redis.Pipeliner, key, name string) func() error {
	for _, one := range plainNumbers {
		if name != one.end && !(strings.HasPrefix(one.end, ":") && strings.HasSuffix(name, one.end)) {
			continue
		}
		hash := pipe.HGetAll(ctx, key)
		return func() error {
			return cmpErr(hash, func() error {
				if name == "exports:sizes" {
					return cmp.Or(checkNumbers(hash.Val(), one.names), checkSizes(hash.Val()))
				}
				return checkNumbers(hash.Val(), one.names)
			})
		}
	}
	return nil
}

// checkNumbers looks whether fields (nil: all), where they are there, are integers that
// are not negative, in their one decimal form.
func checkNumbers(f map[string]string, names []string) (err error) {
	if names == nil {
		names = slices.Sorted(maps.Keys(f))
	}
	for _, name := range names {
		text, there := f[name]
		if n, failed := strconv.ParseInt(text, 10, 64); there && (failed != nil || n < 0 || strconv.FormatInt(n, 10) != text) {
			err = errors.Join(err, fmt.Errorf("%q is %q, and no number", name, text))
		}
	}
	return err
}

// checkSizes compares what all files of exports take up with the bytes of each: scripts
// change both at once.
func checkSizes(f map[string]string) error {
	sum := int64(0)
	for name, text := range f {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && name != "all" {
			sum += n
		}
	}
	if all := rediskv.Fields(f).Int("all"); all != sum {
		return fmt.Errorf("its files take up %d bytes, and it says %d", sum, all)
	}
	return nil
}

// checkScripted looks at what scripts write of a record, and no checksum covers.
func checkScripted(key string, f map[string]string) error {
	k := record.KindOf(key)
	switch k.Name {
	case "export":
		return exports.Damage(key, f)
	case "recovery":
		_, err := webhooks.RecoveryOf(key, f)
		return err
	case "grant":
		_, err := record.RevokedIn(f)
		return cmp.Or(checkNumbers(f, []string{"v"}), checkCopy(f, "v"), err)
	case "delivery":
		if err := checkCopy(f, "rc"); err != nil || f["body"] == "" {
			return err
		}
		// No list has a ping: nobody else looks at it once it is done.
		_, _, id, _ := record.ObjectAt(key)
		_, stored := webhooks.ReadDelivery(key, id, f["we"], f)
		return stored.Err()
	}
	return nil
}

// checkCopy compares a count with its copy. Only an earlier release raises one without
// the other, and they are equal again when this one does.
func checkCopy(f rediskv.Fields, name string) error {
	if copied := f[record.Copied(name)]; copied != "" && copied != f[name] {
		return fmt.Errorf("its count %s is %q, and its copy %q", name, f[name], copied)
	}
	return nil
}
