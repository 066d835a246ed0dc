package rediskv

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// largeBatch is how many payments or tickets are read at once: with 64 KiB of
// metadata each they still take no more than a few megabytes.
const largeBatch = 100

// ExportedRow is what was found at a place: a row, or nothing that the filter
// selects.
type ExportedRow struct {
	tollgate.ExportRow
	Selected bool

	place string // a position in the indexes, or a stream id
}

// ExportRows reads the next rows, in the order of commit, behind what has been
// read of the job; none when the cut is reached. A transaction, payment or
// ticket is as it is now: what is fixed is which of them there are.
func (s *Store) ExportRows(ctx context.Context, j *ExportJob) (rows []ExportedRow, err error) {
	if log := j.space.exportLog(j.Dataset); log != "" {
		rows, err = s.exportedEntries(ctx, log, j)
	} else {
		rows, err = s.exportedObjects(ctx, j)
	}
	if err == nil && len(rows) > 0 {
		j.reading = rows[len(rows)-1].place
	}
	return rows, err
}

// exportedEntries reads events or audit entries.
func (s *Store) exportedEntries(ctx context.Context, log string, j *ExportJob) (rows []ExportedRow, err error) {
	from := "-"
	if j.reading != "" {
		from = "(" + j.reading
	}
	var found []redis.XMessage
	err = s.timed(ctx, "export_log", func(ctx context.Context) (err error) {
		found, err = s.client.XRangeN(ctx, log, from, j.cut, scanBatch).Result()
		return err
	})
	for _, m := range found {
		r := ExportedRow{place: m.ID}
		if j.Dataset == tollgate.DatasetEvents {
			r.Event = jsontext.Value(text(m, "b"))
			r.Selected, err = j.wantsEvent(m)
		} else {
			r.Entry = jsontext.Value(text(m, "b"))
			r.Selected, err = j.wantsEntry(r.Entry)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, err
}

func (j *ExportJob) wantsEvent(m redis.XMessage) (bool, error) {
	f := j.Filter
	if !tollgate.TypeFilter(f.Types).Match(text(m, "t")) || (len(f.Accounts) > 0 && !slices.Contains(f.Accounts, text(m, "a"))) ||
		(f.ObjectID != "" && !names(text(m, "b"), f.ObjectID)) {
		return false, nil
	}
	if f.CreatedAfter == 0 && f.CreatedBefore == 0 {
		return true, nil
	}
	var e struct {
		CreatedAt tollgate.Instant `json:"created_at"`
	}
	if err := json.Unmarshal([]byte(text(m, "b")), &e); err != nil {
		return false, fmt.Errorf("event %s: %w", m.ID, err)
	}
	return f.Within(e.CreatedAt), nil
}

func (j *ExportJob) wantsEntry(doc []byte) (bool, error) {
	f := j.Filter
	if len(f.Types) == 0 && f.Outcome == "" && f.CreatedAfter == 0 && f.CreatedBefore == 0 {
		return true, nil
	}
	e, err := tollgate.UnmarshalEntry(doc)
	return err == nil && f.Entry(e), err
}

// exportedObjects reads what the indexes lead to.
func (s *Store) exportedObjects(ctx context.Context, j *ExportJob) (rows []ExportedRow, err error) {
	cut, err := strconv.ParseInt(j.cut, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("export %s: cut %q: %w", j.ID, j.cut, err)
	}
	after, _ := strconv.ParseInt(cmp.Or(j.reading, "0"), 10, 64) // our own
	members, err := s.scan(ctx, Caller{Organization: j.Organization}, j.space, exportQuery(j.Dataset, &j.Filter), after, j.low, cut)
	if err != nil {
		return nil, err
	}
	whole := j.Dataset == tollgate.DatasetPayments || j.Dataset == tollgate.DatasetTickets
	members = slices.DeleteFunc(members, func(m indexed) bool {
		return m.position > cut || (whole && j.Filter.PaymentID != "" && m.id != tollgate.AuthorizationOf(j.Filter.PaymentID))
	})
	if len(members) == 0 {
		return nil, nil
	}
	rows = make([]ExportedRow, len(members))
	for i, m := range members {
		rows[i].place = strconv.FormatInt(m.position, 10)
	}
	switch j.Dataset {
	case tollgate.DatasetPayments:
		err = s.exportedPayments(ctx, j, members, rows)
	case tollgate.DatasetTickets:
		err = s.exportedTickets(ctx, j, members, rows)
	default:
		err = s.exportedTransactions(ctx, j, members, rows)
	}
	return rows, err
}

func (s *Store) exportedTransactions(ctx context.Context, j *ExportJob, members []indexed, rows []ExportedRow) error {
	found, err := s.transactions(ctx, j.space, members)
	if err != nil {
		return err
	}
	for i := range found {
		t := &found[i]
		rows[i].Transaction = t
		rows[i].Selected = t.ID != "" && j.Filter.Transaction(t) &&
			(j.Dataset != tollgate.DatasetPayouts || t.Type == tollgate.TransactionPayout)
	}
	return nil
}

func (s *Store) exportedPayments(ctx context.Context, j *ExportJob, members []indexed, rows []ExportedRow) error {
	replies := make([]*redis.MapStringStringCmd, len(members))
	if err := s.timed(ctx, "export_payments", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		for i, m := range members {
			replies[i] = pipe.HGetAll(ctx, j.space.object(tollgate.PrefixPayment+unprefixed(m.id)))
		}
		_, err := pipe.Exec(ctx)
		return err
	}); err != nil {
		return err
	}
	for i, r := range replies {
		if len(r.Val()) == 0 {
			continue // of no payment
		}
		p, err := paymentOf(tollgate.PrefixPayment+unprefixed(members[i].id), r.Val())
		if err != nil {
			return err
		}
		rows[i].Payment, rows[i].Selected = p, j.Filter.Payment(p)
	}
	return nil
}

func (s *Store) exportedTickets(ctx context.Context, j *ExportJob, members []indexed, rows []ExportedRow) error {
	keys := make([]string, len(members))
	for i, m := range members {
		keys[i] = j.space.object(tollgate.PrefixTicket + unprefixed(m.id))
	}
	var found []any
	if err := s.timed(ctx, "export_tickets", func(ctx context.Context) (err error) {
		found, err = s.client.MGet(ctx, keys...).Result()
		return err
	}); err != nil {
		return err
	}
	for i, v := range found {
		text, ok := v.(string)
		if !ok {
			continue
		}
		t, err := tollgate.UnmarshalTicket([]byte(text))
		if err != nil {
			return err
		}
		rows[i].Ticket, rows[i].Selected = t, j.Filter.Ticket(t)
	}
	return nil
}
