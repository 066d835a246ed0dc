package tollgate

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ExportRow is one row of an export: exactly one member is there.
type ExportRow struct {
	Transaction *Transaction
	Payment     *Payment
	Ticket      *Ticket
	Event       jsontext.Value // as it was frozen
	Entry       jsontext.Value // of the audit record, as it was written
	Damaged     *DamagedObject // stands in the place of what cannot be read
}

// JSON is the row as the API answers the object, without a line's end.
func (r ExportRow) JSON() (jsontext.Value, error) {
	switch {
	case r.Damaged != nil:
		return json.Marshal(r.Damaged)
	case r.Event != nil:
		return r.Event, nil
	case r.Entry != nil:
		return r.Entry, nil
	case r.Transaction != nil:
		return json.Marshal(r.Transaction, json.Deterministic(true))
	case r.Payment != nil:
		return json.Marshal(r.Payment, json.Deterministic(true))
	default:
		return json.Marshal(r.Ticket, json.Deterministic(true))
	}
}

// The columns of each dataset, in an order that does not change; new ones are
// added at the end. An object's members stand in columns of their own where
// there are few of them (perimeter_id), else as JSON in one (metadata, lines).
var (
	transactionColumns = []string{
		"id", "created_at", "type", "status", "payment_id", "capture_id", "payout_id", "ticket_id", "merchant_account_id",
		"amount", "currency", "payee", "reference", "batch_date", "available_on", "updated_at",
	}
	paymentColumns = []string{
		"id", "created_at", "merchant_account_id", "status", "amount", "currency", "payee", "amount_capturable", "amount_captured",
		"amount_released", "capture_method", "capture_before", "fee_total", "ticket_id", "perimeter_id", "perimeter_version",
		"perimeter_decision", "perimeter_reason", "reference", "description", "metadata", "cancellation_reason",
		"authorized_at", "captured_at", "canceled_at", "expired_at", "updated_at",
	}
	ticketColumns = []string{
		"id", "created_at", "payment_id", "merchant_account_id", "amount", "currency", "payee", "total", "decision",
		"perimeter_id", "perimeter_version", "perimeter_decision", "perimeter_reason", "lines", "evaluations", "event_ids",
	}
	eventColumns = []string{
		"id", "created_at", "type", "schema_version", "sequence", "organization_id", "merchant_account_id", "request_id", "data",
	}
	auditColumns = []string{
		"id", "time", "type", "outcome", "seq", "reason", "client_id", "grant_id", "kid", "request_id", "request_method",
		"request_route", "request_status", "target_type", "target_id",
	}
)

// Columns are the names of a dataset's columns in CSV.
func (d Dataset) Columns() []string {
	switch d {
	case DatasetPayments:
		return paymentColumns
	case DatasetTickets:
		return ticketColumns
	case DatasetEvents:
		return eventColumns
	case DatasetAudit:
		return auditColumns
	default:
		return transactionColumns
	}
}

// AppendHeader appends what stands before the first row.
func (e *Export) AppendHeader(b []byte) []byte {
	if e.Format != FormatCSV {
		return b
	}
	l := csvLine{b: b}
	for _, name := range e.Dataset.Columns() {
		l.plain(name)
	}
	return l.end()
}

// AppendRow appends a row in the export's format, with its line's end.
func (e *Export) AppendRow(b []byte, r ExportRow) ([]byte, error) {
	if e.Format != FormatCSV {
		text, err := r.JSON()
		return append(append(b, text...), '\n'), err
	}
	l := csvLine{b: b}
	var err error
	switch {
	case r.Damaged != nil:
		l.damaged(r.Damaged, len(e.Dataset.Columns()))
	case r.Transaction != nil:
		l.transaction(r.Transaction)
	case r.Payment != nil:
		err = l.payment(r.Payment)
	case r.Ticket != nil:
		err = l.ticket(r.Ticket)
	case r.Event != nil:
		err = l.event(r.Event)
	default:
		err = l.entry(r.Entry)
	}
	return l.end(), err
}

// damaged is the row of what cannot be read: its id, and a word in every other
// column that no program takes for an amount and nobody overlooks.
func (l *csvLine) damaged(d *DamagedObject, columns int) {
	l.plain(d.ID)
	for range columns - 1 {
		l.plain("damaged")
	}
}

func (l *csvLine) transaction(t *Transaction) {
	l.plain(t.ID)
	l.instant(t.CreatedAt)
	l.plain(string(t.Type))
	l.plain(t.Status)
	for _, id := range []*string{t.PaymentID, t.CaptureID, t.PayoutID, t.TicketID} {
		l.plain(given(id))
	}
	l.plain(t.MerchantAccountID)
	l.money(t.Amount)
	l.plain(string(t.Currency))
	l.text(given(t.Payee))
	l.text(given(t.Reference))
	l.plain(given(t.BatchDate))
	l.plain(given(t.AvailableOn))
	l.instant(t.UpdatedAt)
}

func (l *csvLine) payment(p *Payment) error {
	l.plain(p.ID)
	l.instant(p.CreatedAt)
	l.plain(p.MerchantAccountID)
	l.plain(string(p.Status))
	l.money(p.Amount)
	l.plain(string(p.Currency))
	l.text(p.Payee)
	l.money(p.AmountCapturable)
	l.money(p.AmountCaptured)
	l.money(p.AmountReleased)
	l.plain(string(p.CaptureMethod))
	l.instant(p.CaptureBefore)
	l.money(p.FeeTotal)
	l.plain(p.TicketID)
	l.perimeter(p.Perimeter)
	l.text(given(p.Reference))
	l.text(given(p.Description))
	err := l.json(p.Metadata)
	l.text(given(p.CancellationReason))
	for _, at := range []Instant{p.AuthorizedAt, p.CapturedAt, p.CanceledAt, p.ExpiredAt, p.UpdatedAt} {
		l.instant(at)
	}
	return err
}

func (l *csvLine) ticket(t *Ticket) error {
	l.plain(t.ID)
	l.instant(t.CreatedAt)
	l.plain(t.PaymentID)
	l.plain(t.MerchantAccountID)
	l.money(t.Amount)
	l.plain(string(t.Currency))
	l.text(t.Payee)
	l.money(t.Total)
	l.plain(string(t.Decision))
	l.perimeter(t.Perimeter)
	for _, part := range []any{t.Lines, t.Evaluations, t.EventIDs} {
		if err := l.json(part); err != nil {
			return err
		}
	}
	return nil
}

func (l *csvLine) event(text jsontext.Value) error {
	var e Event
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	l.plain(e.ID)
	l.instant(e.CreatedAt)
	l.plain(string(e.Type))
	l.plain(e.SchemaVersion)
	l.int(e.Sequence)
	l.plain(e.OrganizationID)
	l.plain(given(e.MerchantAccountID))
	l.plain(given(e.RequestID))
	l.plain(string(e.Data))
	return nil
}

func (l *csvLine) entry(text jsontext.Value) error {
	e, err := UnmarshalEntry(text)
	if err != nil {
		return err
	}
	l.plain(e.ID)
	l.instant(e.Time)
	l.plain(e.Type)
	l.plain(e.Outcome)
	l.int(e.Seq)
	l.text(e.Reason)
	l.plain(e.Actor.ClientID)
	l.plain(e.Actor.GrantID)
	l.text(e.Actor.KeyID) // the client's own word for its key
	l.plain(e.Request.ID)
	l.plain(e.Request.Method)
	l.plain(e.Request.Route)
	l.int(int64(e.Request.Status))
	l.plain(e.Target.Type)
	l.plain(e.Target.ID)
	return nil
}

// UnmarshalEntry reads an audit entry back.
func UnmarshalEntry(text []byte) (*AuditEntry, error) {
	e := new(AuditEntry)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("audit entry: %w", err)
	}
	return e, nil
}

func (l *csvLine) perimeter(p PerimeterDecision) {
	l.plain(p.ID)
	l.int(p.Version)
	l.plain(string(p.Decision))
	l.plain(string(p.Reason))
}

func (l *csvLine) json(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	l.plain(string(text)) // begins with a bracket, never as a formula
	return err
}

func (l *csvLine) instant(at Instant) {
	l.separate()
	if at != 0 {
		l.b = at.Time().AppendFormat(l.b, instantLayout)
	}
}

func (l *csvLine) int(n int64) {
	l.separate()
	l.b = strconv.AppendInt(l.b, n, 10)
}

func (l *csvLine) money(m Money) {
	l.separate()
	l.b = m.AppendText(l.b)
}
