package history

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/peer"
)

// Space names the keys of organizations.
type Space interface {
	LogOf(partition int, org string) (sequences, events string)
}

// Finding is a loss of a partition.
type Finding struct {
	Partition int
	Loss      Loss
	// The id and the loss that are stored.
	stored, loss string
}

// Compare asks a server for the records of all partitions and for what was last
// acknowledged in them. Records that others have decided are adopted; what is less
// than was acknowledged is a finding. Of a node of a cluster only the partitions count
// that it has. Where one is not answered the error is returned: the connection may not be
// used, as later it would be with what has not been compared.
func (b *Book) Compare(ctx context.Context, c redis.Cmdable, of Space, cluster bool, now tollgate.Instant) (found []Finding, err error) {
	type question struct {
		known  *Record // before it is asked: what is answered may be older than what is known then
		record *redis.MapStringStringCmd
		marks  []mark
		events []*redis.StringCmd
		last   []*redis.XMessageSliceCmd
	}
	asked := make([]question, len(b.parts))
	pipe := c.Pipeline()
	for p := range b.parts {
		q := question{known: b.Of(p), record: pipe.HGetAll(ctx, b.Key(p)), marks: b.marks(p)}
		for _, m := range q.marks {
			sequences, events := of.LogOf(p, m.org)
			q.events = append(q.events, pipe.HGet(ctx, sequences, "event"))
			q.last = append(q.last, pipe.XRevRangeN(ctx, events, "+", "-", 1))
		}
		asked[p] = q
	}
	if _, err := pipe.Exec(ctx); err != nil && !peer.IsReply(err) {
		return nil, err
	}
	for p, q := range asked {
		if cluster && peer.Elsewhere(q.record.Err()) {
			continue
		}
		if err := q.record.Err(); err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return nil, err
		}
		known := q.known
		if known.ID == "" {
			continue
		}
		r, ok := RecordOf(b.Key(p), q.record.Val())
		loss := Loss{FoundAt: now, Since: since(q.last)}
		switch {
		case !ok && len(q.record.Val()) == 0 && q.record.Err() == nil:
			loss.Reason = Empty
		case !ok:
			loss.Reason = Unreadable
		case !r.follows(known) && r.ID == known.ID:
			loss.Reason = Behind
		case !r.follows(known):
			loss.Reason = Empty
		case r.ID != known.ID || !r.Open:
			b.Adopt(p, r)
			continue
		case r.Starts < known.Starts:
			loss.Reason, loss.Acknowledged, loss.Found = Behind, known.Starts, r.Starts
		default:
			// What could not be written stays found: others may have made as many changes
			// since as were lost.
			if f, is := b.unsure.Load(p); is && f.(Finding).stored == r.ID {
				loss = f.(Finding).Loss
			}
			for i, m := range q.marks {
				has, err := q.events[i].Int64()
				if err != nil && !errors.Is(err, redis.Nil) {
					continue // it is damaged, which is told where it is read
				}
				if has < m.position && (loss.Reason == "" || m.position-has > loss.Acknowledged-loss.Found) {
					loss.Reason, loss.Organization, loss.Acknowledged, loss.Found = Behind, m.org, m.position, has
				}
			}
		}
		if loss.Reason != "" {
			found = append(found, Finding{p, loss, q.record.Val()["id"], q.record.Val()["lost"]})
		} else if known.Loss != nil && r.Loss == nil {
			b.Adopt(p, r) // it has been accepted
		}
	}
	return found, nil
}

// since is when the last event that is still there was written: what is missing came
// after it.
func since(last []*redis.XMessageSliceCmd) (at tollgate.Instant) {
	for _, reply := range last {
		for _, entry := range reply.Val() {
			milli, _, _ := strings.Cut(entry.ID, "-")
			n, _ := strconv.ParseInt(milli, 10, 64)
			at = max(at, tollgate.Instant(n))
		}
	}
	return at
}
