package look

import (
	"context"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/streams"
)

// SequenceOf reads the number of an entry of an organization's log of events.
func SequenceOf(k rediskv.Space) func(redis.XMessage) (int64, error) {
	return func(m redis.XMessage) (int64, error) {
		e, err := eventlog.EventOf(k, m)
		if err != nil {
			return 0, err
		}
		return e.Sequence, nil
	}
}

// Trimmed compares what a log has lost at its beginning with what packs have of it. counter is
// what its numbers are counted as. The log is read first: it loses nothing that packs do not
// have before.
func Trimmed(ctx context.Context, r Reader, log, counter string) ([]consistency.Finding, error) {
	oldest, err := streams.Range(ctx, r.DB, r.K.Object(log), "-", "+", 1)
	if err != nil || len(oldest) == 0 {
		return nil, err
	}
	in, err := eventlog.ReadPacked(ctx, r.DB, r.K, log)
	if err != nil || in == nil {
		return nil, err
	}
	first := eventlog.NumberOf(oldest[0])
	if first == 0 || in.Sequence == 0 || first <= in.Sequence+1 {
		return nil, nil // the walk says what cannot be read
	}
	return []consistency.Finding{consistency.Found(consistency.FindingSequence, counter, oldest[0].ID, "%d to %d are missing: packs have them until number %d, and Redis from number %d on", in.Sequence+1, first-1, in.Sequence, first)}, nil
}
