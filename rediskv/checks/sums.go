package checks

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/checks/sums"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/record"
)

// checkSums compares the records among keys of the organization with their checksums.
// The entries of its logs are compared on the way through them.
func (w *walk) checkSums(ctx context.Context, names []string) ([][]Finding, error) {
	faults := make([]func() error, len(names))
	err := w.Timed(ctx, "records", func(ctx context.Context) error {
		pipe := w.Redis().Pipeline()
		for i, name := range names {
			key := w.K.Organization()
			if name != "" {
				key = w.K.Object(name)
			}
			faults[i] = sums.Ask(ctx, pipe, key, name)
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
			key := w.K.Organization()
			if name != "" {
				key = w.K.Object(name)
			}
			_, object, id, _ := record.ObjectAt(key)
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingDamaged, object, id, "%s: %v", key, fault)})
		}
	}
	return findings, nil
}
