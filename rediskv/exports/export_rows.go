package exports

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
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/streams"
)

// largePage is how many payments or tickets are read at once: with 64 KiB of
// metadata each they still take no more than a few megabytes.
const largePage = 100

// Row is one row of an export.
type Row struct {
	Value   any                     // *tollgate.Transaction, Payment, Ticket, Event or AuditEntry
	Text    jsontext.Value          // of events and audit entries, as they were written
	Damaged *tollgate.DamagedObject // stands in the place of what cannot be read
}

// JSON is the row as the API answers the object, without a line's end.
func (r Row) JSON() (jsontext.Value, error) {
	switch {
	case r.Damaged != nil:
		return json.Marshal(r.Damaged)
	case r.Text != nil:
		return r.Text, nil
	default:
		return json.Marshal(r.Value, json.Deterministic(true))
	}
}

// ExportedRow is what was found at a place: a row, or nothing that the filter
// selects.
type ExportedRow struct {
	Row
	Selected bool

	place string // a position in the indexes, or a stream id
}

// exportSource says where the rows of a dataset are found: in a stream, each
// entry read by entryOf, or in the indexes of transactions, read by rowsOf.
type exportSource struct {
	log      string
	statuses []string // of the indexes, where the filter has none; nil: all of them
	large    bool     // one row for a payment, which may be large
}

var exportSources = map[tollgate.Dataset]exportSource{
	tollgate.DatasetPayouts:  {statuses: tollgate.PayoutStatuses},
	tollgate.DatasetPayments: {statuses: tollgate.PaymentStatuses, large: true},
	tollgate.DatasetTickets:  {statuses: tollgate.PaymentStatuses, large: true},
	tollgate.DatasetEvents:   {log: eventlog.LogEvents},
	tollgate.DatasetAudit:    {log: eventlog.LogAudit},
}

// entryOf reads an entry of a dataset's stream.
func entryOf(d tollgate.Dataset, k rediskv.Space, m redis.XMessage) (any, error) {
	if d == tollgate.DatasetAudit {
		return eventlog.AuditEntryOf(k, m)
	}
	return eventlog.EventOf(k, m)
}

// rowsOf reads the rows of a dataset at places in the indexes.
func (s *Store) rowsOf(ctx context.Context, j *ExportJob, members []ledger.Indexed, rows []ExportedRow) error {
	switch j.Dataset {
	case tollgate.DatasetPayments:
		return s.exportedPayments(ctx, j, members, rows)
	case tollgate.DatasetTickets:
		return s.exportedTickets(ctx, j, members, rows)
	default:
		return s.exportedTransactions(ctx, j, members, rows)
	}
}

// exportQuery says in which indexes the rows of a dataset are found.
func exportQuery(d tollgate.Dataset, f *tollgate.ExportFilter) ledger.TransactionQuery {
	source := exportSources[d]
	q := ledger.TransactionQuery{
		Accounts: f.Accounts, Statuses: f.Statuses, PaymentID: f.PaymentID,
		CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore, PageSize: rediskv.ScanPage,
	}
	if len(q.Statuses) == 0 {
		q.Statuses = source.statuses
	}
	if source.large {
		q.PageSize = largePage
	}
	return q
}

// ExportRows reads the next rows, in the order of commit, behind what has been
// read of the job; none when the cut is reached. A transaction, payment or
// ticket is as it is now: what is fixed is which of them there are.
func (s *Store) ExportRows(ctx context.Context, j *ExportJob) (rows []ExportedRow, err error) {
	if log := exportSources[j.Dataset].log; log != "" {
		rows, err = s.exportedEntries(ctx, log, j)
	} else {
		rows, err = s.exportedObjects(ctx, j)
	}
	if err == nil && len(rows) > 0 {
		j.reading = rows[len(rows)-1].place
	}
	return rows, err
}

// found makes the row that of an object, or of what cannot be read.
func (s *Store) found(ctx context.Context, j *ExportJob, r *ExportedRow, value any, err error) {
	if s.db.Noticed(ctx, j.space, err) != nil {
		r.Damaged, r.Selected = tollgate.DamageOf(err), j.mine(err)
		return
	}
	r.Value, r.Selected = value, filter{&j.Filter}.selects(j.Dataset, value)
}

// exportedEntries reads events or audit entries.
func (s *Store) exportedEntries(ctx context.Context, log string, j *ExportJob) (rows []ExportedRow, err error) {
	from := "-"
	if j.reading != "" {
		from = "(" + j.reading
	}
	found, err := streams.Range(ctx, s.db, j.space.Object(log), from, j.cut, rediskv.ScanPage)
	if err == nil {
		// What Redis has begins behind what was trimmed, which is in packs.
		var trimmed []redis.XMessage
		if trimmed, err = s.events.Trimmed(ctx, j.space, log, j.reading, j.cut, rediskv.ScanPage); len(trimmed) > 0 {
			found = trimmed
		}
	}
	if err != nil {
		return nil, err
	}
	rows = make([]ExportedRow, len(found))
	for i, m := range found {
		rows[i].place, rows[i].Text = m.ID, jsontext.Value(rediskv.Text(m, "b"))
		e, failed := entryOf(j.Dataset, j.space, m)
		s.found(ctx, j, &rows[i], e, failed)
	}
	return rows, nil
}

// exportedObjects reads what the indexes lead to.
func (s *Store) exportedObjects(ctx context.Context, j *ExportJob) (rows []ExportedRow, err error) {
	cut, err := strconv.ParseInt(j.cut, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("export %s: cut %q: %w", j.ID, j.cut, err)
	}
	after, _ := strconv.ParseInt(cmp.Or(j.reading, "0"), 10, 64) // our own
	members, _, err := s.ledger.Scan(ctx, rediskv.Caller{Organization: j.Organization}, j.space, exportQuery(j.Dataset, &j.Filter), after, j.low, cut)
	if err != nil {
		return nil, err
	}
	source := exportSources[j.Dataset]
	members = slices.DeleteFunc(members, func(m ledger.Indexed) bool {
		return m.Position > cut || (source.large && j.Filter.PaymentID != "" && m.ID != tollgate.AuthorizationOf(j.Filter.PaymentID))
	})
	if len(members) == 0 {
		return nil, nil
	}
	rows = make([]ExportedRow, len(members))
	for i, m := range members {
		rows[i].place = strconv.FormatInt(m.Position, 10)
	}
	return rows, s.rowsOf(ctx, j, members, rows)
}

// wanted is the filter as lists know it, which places what cannot be read.
func (j *ExportJob) wanted() *ledger.TransactionQuery {
	f := &j.Filter
	q := &ledger.TransactionQuery{
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

func (s *Store) exportedTransactions(ctx context.Context, j *ExportJob, members []ledger.Indexed, rows []ExportedRow) error {
	found, err := s.ledger.ReadTransactions(ctx, rediskv.Caller{}, j.space, members, nil)
	if err != nil {
		return err
	}
	wanted := j.wanted()
	for i, t := range found {
		switch {
		case t.Damaged:
			rows[i].Damaged, rows[i].Selected = tollgate.DamageOf(s.db.Noticed(ctx, j.space, t.Err())), wanted.Match(t)
		case t.ID != "":
			s.found(ctx, j, &rows[i], t.Transaction, nil)
		}
	}
	return nil
}

func (s *Store) exportedPayments(ctx context.Context, j *ExportJob, members []ledger.Indexed, rows []ExportedRow) error {
	fields := make([]rediskv.Fields, 0, len(members))
	if err := rediskv.EachHash(ctx, s.db, rediskv.Caller{}, "export_payments", members, func(m ledger.Indexed) string {
		return j.space.Object(paymentOf(m))
	}, func(_ ledger.Indexed, f rediskv.Fields) { fields = append(fields, f) }); err != nil {
		return err
	}
	archived, err := s.archived(ctx, j, members, func(i int) bool { return len(fields[i]) > 0 })
	if err != nil {
		return err
	}
	for i, m := range members {
		if r := archived(m); len(fields[i]) == 0 && r != nil {
			fields[i] = r.Payment
		}
		if len(fields[i]) > 0 { // else of no payment
			p, err := payments.PaymentOf(paymentOf(m), fields[i])
			s.found(ctx, j, &rows[i], p, err)
		}
	}
	return nil
}

// paymentOf is the payment that an authorization is of.
func paymentOf(m ledger.Indexed) string { return tollgate.PrefixPayment + rediskv.Unprefixed(m.ID) }

// archived are the payments of those authorizations that Redis does not have them of; has
// says of which it does.
func (s *Store) archived(ctx context.Context, j *ExportJob, members []ledger.Indexed, has func(i int) bool) (of func(ledger.Indexed) *ledger.Records, err error) {
	var ids []string
	for i, m := range members {
		if m.Shared && !has(i) {
			ids = append(ids, paymentOf(m))
		}
	}
	found, err := s.ledger.Archived(ctx, j.space, ids)
	return func(m ledger.Indexed) *ledger.Records {
		shared, _, _ := tollgate.NumberIn(m.ID)
		if r := found[shared]; r != nil && r.ID == paymentOf(m) {
			return r
		}
		return nil
	}, err
}

func (s *Store) exportedTickets(ctx context.Context, j *ExportJob, members []ledger.Indexed, rows []ExportedRow) error {
	keys := make([]string, len(members))
	for i, m := range members {
		keys[i] = j.space.Object(tollgate.PrefixTicket + rediskv.Unprefixed(m.ID))
	}
	var found []any
	if err := s.db.Timed(ctx, "export_tickets", func(ctx context.Context) (err error) {
		found, err = s.db.Redis.MGet(ctx, keys...).Result()
		return err
	}); err != nil {
		return err
	}
	archived, err := s.archived(ctx, j, members, func(i int) bool { return found[i] != nil })
	if err != nil {
		return err
	}
	for i, v := range found {
		text, ok := v.(string)
		if r := archived(members[i]); !ok && r != nil {
			text, ok = r.Ticket, true // none of one that cannot be read
		}
		if !ok {
			continue
		}
		t, err := payments.TicketOf(j.space, tollgate.PrefixTicket+rediskv.Unprefixed(members[i].ID), text)
		s.found(ctx, j, &rows[i], t, err)
	}
	return nil
}
