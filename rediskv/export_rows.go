package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
			if e, failed := eventOf(m); s.noticed(ctx, j.space, failed) != nil {
				r.damaged(failed, j.mine(failed))
			} else {
				r.Event, r.Selected = jsontext.Value(text(m, "b")), j.wantsEvent(m, e)
			}
		} else if e, failed := entryOf(m); s.noticed(ctx, j.space, failed) != nil {
			r.damaged(failed, true)
		} else {
			r.Entry, r.Selected = jsontext.Value(text(m, "b")), j.Filter.Entry(e)
		}
		rows = append(rows, r)
	}
	return rows, err
}

func (j *ExportJob) wantsEvent(m redis.XMessage, e *tollgate.Event) bool {
	f := j.Filter
	return tollgate.TypeFilter(f.Types).Match(text(m, "t")) && (len(f.Accounts) == 0 || slices.Contains(f.Accounts, text(m, "a"))) &&
		(f.ObjectID == "" || names(text(m, "b"), f.ObjectID)) && f.Within(e.CreatedAt)
}

// entryOf reads an entry of the audit record. Without its own id it is named by
// its place.
func entryOf(m redis.XMessage) (*tollgate.AuditEntry, error) {
	e, err := tollgate.UnmarshalEntry([]byte(text(m, "b")))
	if err == nil && (!strings.HasPrefix(e.ID, tollgate.PrefixAudit) || e.Seq < 1 || e.Time == 0) {
		err = errors.New("a member is missing")
	}
	if err != nil {
		return nil, tollgate.Damage("audit_entry", tollgate.PrefixAudit+strings.ReplaceAll(m.ID, "-", "_"), err)
	}
	return e, nil
}

// exportedObjects reads what the indexes lead to.
func (s *Store) exportedObjects(ctx context.Context, j *ExportJob) (rows []ExportedRow, err error) {
	cut, err := strconv.ParseInt(j.cut, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("export %s: cut %q: %w", j.ID, j.cut, err)
	}
	after, _ := strconv.ParseInt(cmp.Or(j.reading, "0"), 10, 64) // our own
	members, _, err := s.scan(ctx, Caller{Organization: j.Organization}, j.space, exportQuery(j.Dataset, &j.Filter), after, j.low, cut)
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

// damaged makes the row that of an object that cannot be read.
func (r *ExportedRow) damaged(err error, selected bool) {
	r.Damaged, r.Selected = tollgate.DamageOf(err), selected
}

// wanted is the filter as lists know it, which places what cannot be read.
func (j *ExportJob) wanted() *TransactionQuery {
	f := &j.Filter
	q := &TransactionQuery{
		Accounts: f.Accounts, Statuses: f.Statuses, PaymentID: f.PaymentID, PayoutID: f.PayoutID, Payee: f.Payee,
		Currency: f.Currency, Reference: f.Reference, CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore,
	}
	for _, t := range f.Types {
		q.Types = append(q.Types, tollgate.TransactionType(t))
	}
	if j.Dataset == tollgate.DatasetPayouts {
		q.Types = []tollgate.TransactionType{tollgate.TransactionPayout}
	}
	return q
}

// mine reports whether an object that cannot be read is known to be of an
// account that the export covers.
func (j *ExportJob) mine(err error) bool {
	d := tollgate.DamageOf(err)
	return len(j.Filter.Accounts) == 0 || (d != nil && slices.Contains(j.Filter.Accounts, d.MerchantAccountID))
}

func (s *Store) exportedTransactions(ctx context.Context, j *ExportJob, members []indexed, rows []ExportedRow) error {
	found, err := s.transactions(ctx, Caller{}, j.space, members)
	if err != nil {
		return err
	}
	wanted := j.wanted()
	for i, t := range found {
		if t.Damaged {
			rows[i].damaged(s.noticed(ctx, j.space, t.err()), wanted.match(t))
			continue
		}
		rows[i].Transaction = t.Transaction
		rows[i].Selected = t.ID != "" && j.Filter.Transaction(t.Transaction) &&
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
		if s.noticed(ctx, j.space, err) != nil {
			rows[i].damaged(err, j.mine(err))
			continue
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
		t, err := ticketOf(tollgate.PrefixTicket+unprefixed(members[i].id), text)
		if s.noticed(ctx, j.space, err) != nil {
			rows[i].damaged(err, j.mine(err))
			continue
		}
		rows[i].Ticket, rows[i].Selected = t, j.Filter.Ticket(t)
	}
	return nil
}
