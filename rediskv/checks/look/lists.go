package look

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/ledger"
)

// WrongSpan is a field of ledger.ArchivedKey that is not what the archive has.
type WrongSpan struct{ Field, Is, Want, Why string }

// Spans compares which lists Redis says that the archive has of an organization with what is
// there.
func Spans(ctx context.Context, r Reader, l *ledger.Store) (wrong []WrongSpan, err error) {
	packed, err := l.PackedSpans(ctx, r.K)
	if err != nil || len(packed) == 0 {
		return nil, err
	}
	var hash *redis.MapStringStringCmd
	if err := r.Pipelined(ctx, "spans", func(ctx context.Context, pipe redis.Pipeliner) {
		hash = pipe.HGetAll(ctx, ledger.ArchivedKey(r.K))
	}); err != nil {
		return nil, err
	}
	for _, span := range packed {
		field, want := strconv.FormatInt(span.Line, 10), span.SpanText()
		is := hash.Val()[field]
		if is == want || is == ledger.Unused {
			continue
		}
		wrong = append(wrong, WrongSpan{field, is, want, fmt.Sprintf("line %d of the archive has places %s of its lists, and Redis says %q", span.Line, want, is)})
	}
	return wrong, nil
}
