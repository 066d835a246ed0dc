package ledger

import (
	"context"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// Span is between which places, with them, the archive has what an organization's lists of
// transactions had in Redis: that which was archived with one line of its manifest.
type Span struct {
	Line        int64
	First, Last int64
}

// meets reports whether something between two places may be in the span.
func (s Span) meets(low, high int64) bool { return s.First <= high && s.Last >= low }

// Listing is what is read of lists of transactions.
type Listing struct {
	Lists      []string   // the keys of indexes
	Between    [][2]int64 // places, with both; ascending
	Descending bool
	Most       int // entries; 0: all
}

// ListOf is what the archive calls an index: its key behind that of the organization.
func ListOf(k rediskv.Space, index string) string { return strings.TrimPrefix(index, k.Object("")) }

// Complete is the index of all transactions where earlier builds read it, up to the layout
// Compact. Else it is no index, but a key that scripts know: each transaction is in that of
// its status, and those of all statuses are read as one.
func Complete(db *rediskv.DB, k rediskv.Space) string {
	if record.FormIn(db.Layout()) == record.Dense {
		return k.Sequences()
	}
	return k.Transactions()
}

// dropComplete queues the removal of the index of all transactions where no build reads it any
// more. It is tried once for each organization: a process that did not know yet may add to it
// for a minute.
func (s *Store) dropComplete(ctx context.Context, pipe redis.Pipeliner, k rediskv.Space) {
	if Complete(s.db, k) == k.Transactions() {
		return
	}
	if _, tried := s.dropped.LoadOrStore(k.Org, true); !tried {
		pipe.Unlink(ctx, k.Transactions())
	}
}

// indexesOfStatuses are the indexes of transactions that have one of some statuses.
func indexesOfStatuses(k rediskv.Space, statuses []string) (keys []string) {
	for _, status := range statuses {
		keys = append(keys, k.TransactionsIn(status))
	}
	return keys
}

// archivedAs are the lists of the archive that have what indexes of Redis have: it has one of
// all transactions.
func archivedAs(k rediskv.Space, indexes []string) []string {
	if len(indexes) == len(tollgate.TransactionStatuses) && indexes[0] == k.TransactionsIn(tollgate.TransactionStatuses[0]) {
		return []string{k.Transactions()}
	}
	return indexes
}

// ListsOf are the keys of the indexes that a transaction is in, and what each is.
func ListsOf(k rediskv.Space, t *tollgate.Transaction) (keys, what []string) {
	keys = []string{k.TransactionsOf(t.MerchantAccountID), k.TransactionsIn(t.Status)}
	what = []string{"the list of its account", "the list of those that are " + t.Status}
	switch {
	case t.Type == tollgate.TransactionPayout && t.PayoutID != nil:
		keys, what = append(keys, k.Own(*t.PayoutID)), append(what, "the list of its payout")
	case t.AvailableOn != nil:
		if on, err := tollgate.ParseDate(*t.AvailableOn); err == nil {
			keys, what = append(keys, k.Group(t.MerchantAccountID, t.Currency, on)), append(what, "the group of "+*t.AvailableOn)
		}
	}
	return keys, what
}

// ArchivedKey is a hash of an organization: through, up to which place in the list of its
// transactions payments have been looked at by who archives them; and its spans, by the
// number of the line, as "first-last". A line whose lists of it nobody uses has Unused.
func ArchivedKey(k rediskv.Space) string { return k.Object("archive") }

// Unused is in place of a span where Redis, which was put back from a copy, has or had other
// entries than the lists of a line: it keeps its own.
const Unused = "-"

// SpanText is how ArchivedKey has a span.
func (s Span) SpanText() string {
	return strconv.FormatInt(s.First, 10) + "-" + strconv.FormatInt(s.Last, 10)
}

// SpansIn reads the spans of an organization, in the order of their lines. What cannot be
// read is a span of everything: a check says so.
func SpansIn(hash map[string]string) (spans []Span) {
	for name, text := range hash {
		line, err := strconv.ParseInt(name, 10, 64)
		if err != nil || text == Unused {
			continue
		}
		first, last, _ := strings.Cut(text, "-")
		span := Span{Line: line, Last: Highest}
		if low, err := strconv.ParseInt(first, 10, 64); err == nil {
			if high, err := strconv.ParseInt(last, 10, 64); err == nil {
				span.First, span.Last = low, high
			}
		}
		spans = append(spans, span)
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].Line < spans[j].Line })
	return spans
}

// knownSpans are an organization's, as they were read.
type knownSpans struct {
	fields int64 // of the hash
	at     time.Time
	spans  []Span
}

// spansStale is for how long spans are used that were read, although their hash has as many
// fields: it may be another history's.
const spansStale = time.Minute

// Spans are those of an organization whose hash has so many fields now.
func (s *Store) Spans(ctx context.Context, k rediskv.Space, fields int64) ([]Span, error) {
	key := ArchivedKey(k)
	if fields == 0 {
		return nil, nil
	}
	if known, ok := s.spans.Get(key); ok && known.fields == fields && s.db.Clock().Sub(known.at).Abs() < spansStale {
		return known.spans, nil
	}
	var hash map[string]string
	err := s.db.Timed(ctx, "archived_spans", func(ctx context.Context) (err error) {
		hash, err = s.db.Redis.HGetAll(ctx, key).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	known := &knownSpans{int64(len(hash)), s.db.Clock(), SpansIn(hash)}
	s.spans.Add(key, known)
	return known.spans, nil
}

// Beyond adds to what Redis has of lists, in their order, what the archive has of them; fields
// is how many ArchivedKey had when Redis was asked, or later: what is removed from the lists of
// Redis is in a span before. Nothing is read that does not belong to the page.
func (s *Store) Beyond(ctx context.Context, k rediskv.Space, fields int64, members []Indexed, l Listing) ([]Indexed, error) {
	spans, err := s.Spans(ctx, k, fields)
	if err != nil || len(spans) == 0 {
		return members, err
	}
	if len(l.Between) == 1 {
		members = l.Cut(members)
	}
	var those []Span
	for _, span := range spans {
		if slices.ContainsFunc(l.Between, func(b [2]int64) bool { return span.meets(b[0], b[1]) }) {
			those = append(those, span)
		}
	}
	if len(those) == 0 {
		return members, nil
	}
	if s.archive == nil {
		return nil, notHere()
	}
	more, err := s.archive.Lists(ctx, k, those, l)
	if err != nil {
		return nil, err
	}
	return l.ordered(append(members, more...)), nil
}

// PackedSpans are those of an organization that the archive has, whether Redis says so or not.
func (s *Store) PackedSpans(ctx context.Context, k rediskv.Space) ([]Span, error) {
	if s.archive == nil {
		return nil, nil
	}
	return s.archive.Spans(ctx, k)
}

// ordered puts members in order, each once.
func (l *Listing) ordered(members []Indexed) []Indexed {
	q := TransactionQuery{Descending: l.Descending}
	return q.ordered(members)
}

// Cut is what a page can have of members: its order, and no more than it has. Then nothing
// behind the last of them is looked for.
func (l *Listing) Cut(members []Indexed) []Indexed {
	members = l.ordered(members)
	if l.Most == 0 || len(members) < l.Most {
		return members
	}
	if members = members[:l.Most]; l.Descending {
		l.Between[0][0] = max(l.Between[0][0], members[l.Most-1].Position)
	} else {
		l.Between[0][1] = min(l.Between[0][1], members[l.Most-1].Position)
	}
	return members
}

// notHere is the answer of a process that knows no archive.
func notHere() error {
	return &tollgate.Error{Code: tollgate.CodeArchiveUnavailable, Message: "This may be in the archive, which this instance does not know."}
}
