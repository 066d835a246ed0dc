package eventlog

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
)

// auditLimit bounds what one request looks at of the audit record: each entry is read
// whole. A page may then be short or empty and still have a next one.
const auditLimit = 20_000

// AuditQuery selects entries of an organization's audit record, the newest first; empty
// members select all.
type AuditQuery struct {
	Types                       tollgate.TypeFilter // also of groups, such as payment.*
	Actor, Target, Outcome      string              // ids of a client and of an object; what came of it
	CreatedAfter, CreatedBefore tollgate.Instant    // both exclusive
	After                       string              // the place of the last entry that was looked at; empty: the newest is next
	Limit                       int
}

func (q *AuditQuery) match(e *tollgate.AuditEntry) bool {
	one := func(want, have string) bool { return want == "" || want == have }
	return q.Types.Match(e.Type) && one(q.Actor, e.Actor.ClientID) && one(q.Target, e.Target.ID) && one(q.Outcome, e.Outcome) &&
		(q.CreatedAfter == 0 || e.Time > q.CreatedAfter) && (q.CreatedBefore == 0 || e.Time < q.CreatedBefore)
}

// AuditRow is an entry, or what stands in the place of one that cannot be read.
type AuditRow struct {
	*tollgate.AuditEntry
	Damaged *tollgate.DamagedObject
}

// AuditEntries returns one page, and the place to go on from; it is empty at the end.
// An entry that cannot be read is in every page that reaches it: a filter hides none.
//
// What an entry says of its time is the clock of who made it, and its place is Redis'
// time. The two differ by the tolerance of clocks and by how far a sandbox is ahead,
// which only grows: so an entry's time is never much before that of an older one.
func (s *Store) AuditEntries(ctx context.Context, c rediskv.Caller, q AuditQuery) (rows []AuditRow, next string, err error) {
	k := s.db.Space(c.Organization)
	r := streams.Query{Log: k.Audit(), Descending: true, First: "+", Last: "-", Count: q.Limit + 1}
	r.GrantKeys, r.GrantArgs = c.Grant(k)
	if q.Types != nil || q.Actor+q.Target+q.Outcome != "" || q.CreatedAfter != 0 {
		r.Count = eventBatch
	}
	step := tollgate.Instant(rewind.Milliseconds())
	switch {
	case q.After != "":
		r.First = streams.Previous(q.After)
	case q.CreatedBefore != 0:
		if r.First, err = s.auditBefore(ctx, c, k, q.CreatedBefore+step); err != nil {
			return nil, "", err
		}
	}
	for v := (visit{}); v.looked < auditLimit; {
		found, err := s.auditPage(ctx, c, k, r, &v)
		if err != nil {
			return nil, "", err
		}
		for _, m := range found.Entries {
			row := AuditRow{}
			e, failed := AuditEntryOf(k, m)
			switch {
			case s.db.Noticed(ctx, k, failed) != nil:
				row.Damaged = tollgate.DamageOf(failed)
			case q.CreatedAfter != 0 && e.Time < q.CreatedAfter-step:
				return rows, "", nil
			case !q.match(e):
				next = m.ID
				continue
			default:
				row.AuditEntry = e
			}
			if len(rows) == q.Limit {
				return rows, next, nil
			}
			rows, next = append(rows, row), m.ID
		}
		if found.Looked < r.Count {
			if v.cold || found.Last != nil && NumberOf(*found.Last) == 1 {
				return rows, "", nil
			}
			v.cold = true // what was trimmed is in packs
		}
		if v.count(found.Looked); next != "" {
			r.First = streams.Previous(next)
		}
	}
	return rows, next, nil
}

// auditPage reads the next page of the audit record: of Redis, or of packs.
func (s *Store) auditPage(ctx context.Context, c rediskv.Caller, k rediskv.Space, r streams.Query, v *visit) (found *streams.Page, err error) {
	if !v.cold {
		err = c.InTurn(ctx, func() (err error) {
			found, err = streams.Read(ctx, s.db, r)
			return err
		})
		return found, err
	}
	in, err := s.Packed(ctx, k, LogAudit)
	if err != nil || in == nil {
		return &streams.Page{}, err
	}
	return s.readPacked(ctx, k, LogAudit, r)
}

// auditBefore is a place behind all entries that are older than a time: the clocks have
// differed by no less than they do at the oldest one. Where that leads to before what Redis
// has, it is the oldest one in packs that says so.
func (s *Store) auditBefore(ctx context.Context, c rediskv.Caller, k rediskv.Space, until tollgate.Instant) (place string, err error) {
	var oldest []redis.XMessage
	if err := c.InTurn(ctx, func() (err error) {
		oldest, err = streams.Range(ctx, s.db, k.Audit(), "-", "+", 1)
		return err
	}); err != nil || len(oldest) == 0 {
		return "+", err
	}
	place = behind(k, oldest[0], until)
	if place == "+" || !streams.Less(place, oldest[0].ID) {
		return place, nil
	}
	packed, err := s.Trimmed(ctx, k, LogAudit, "", "+", 1)
	if err == nil && len(packed) == 1 {
		place = behind(k, packed[0], until)
	}
	return place, err
}

// behind is that place by the oldest entry.
func behind(k rediskv.Space, oldest redis.XMessage, until tollgate.Instant) string {
	e, err := AuditEntryOf(k, oldest)
	if err != nil {
		return "+" // the page looks at all there is
	}
	apart := int64(e.Time) - int64(Place(oldest.ID).Milli)
	return strconv.FormatInt(max(int64(until)-apart, 0), 10)
}

// AuditEntryOf reads an entry of the audit record. Without its own id it is named by
// its place.
func AuditEntryOf(k rediskv.Space, m redis.XMessage) (*tollgate.AuditEntry, error) {
	e := new(tollgate.AuditEntry)
	err := cmp.Or(record.CheckEntry(k.Audit(), m.Values), record.Decode(rediskv.Text(m, "b"), e))
	if err == nil && (!strings.HasPrefix(e.ID, tollgate.PrefixAudit) || e.Seq < 1 || e.Time == 0) {
		err = errors.New("a member is missing")
	}
	if err != nil {
		return nil, tollgate.Damage("audit_entry", tollgate.PrefixAudit+strings.ReplaceAll(m.ID, "-", "_"), err)
	}
	return e, nil
}

// CountRefusals counts n failures of strangers per reason and minute, so that
// nobody without a token can make the record grow. Counts are kept 30 days.
func (s *Store) CountRefusals(ctx context.Context, reason string, n int64) error {
	key := rediskv.DeniedKey(s.db.Clock().UTC().Format("2006-01-02T15:04"))
	return s.db.Timed(ctx, "count_refusals", func(ctx context.Context) error {
		_, err := s.db.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HIncrBy(ctx, key, reason, n)
			p.Expire(ctx, key, 30*24*time.Hour)
			return nil
		})
		return err
	})
}
