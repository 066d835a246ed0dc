package payments

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// Archived is a payment with all that belongs to it, as an archive keeps it: the objects as
// the API shows them, and what is known of them beside. It is made into the records that
// Redis had, and out of them.
type Archived struct {
	ID           string                `json:"id"` // the first member: package packs looks rows up by it
	Organization string                `json:"organization_id"`
	Revision     int64                 `json:"revision"`
	Numbers      int                   `json:"numbers"`
	Counters     []string              `json:"counters"`
	Payment      tollgate.Payment      `json:"payment"`
	Ticket       tollgate.Ticket       `json:"ticket"`
	Transactions []ArchivedTransaction `json:"transactions"`
	Captures     []tollgate.Capture    `json:"captures"`
	Refunds      []tollgate.Refund     `json:"refunds"`
}

// ArchivedTransaction is a transaction and its place in the lists.
type ArchivedTransaction struct {
	Position    int64                `json:"position"`
	Transaction tollgate.Transaction `json:"transaction"`
}

// ArchivedOf makes it of a payment's records. Damage of any of them is an error.
func ArchivedOf(k rediskv.Space, id string, r *ledger.Records) (*Archived, error) {
	p, err := PaymentOf(id, record.Verified(k.Object(id), r.Payment))
	if err != nil {
		return nil, err
	}
	t, err := TicketOf(k, p.TicketID, r.Ticket)
	if err != nil {
		return nil, err
	}
	a := &Archived{ID: id, Organization: k.Org, Revision: p.Revision, Numbers: p.Numbers, Counters: p.Counters, Payment: *p, Ticket: *t}
	members, found := ledger.PartsIn(k, sharedBy(id), r.Parts)
	for i, f := range found {
		x, stored := ledger.TransactionOf(members[i].ID, f)
		if err := stored.Err(); err != nil {
			return nil, err
		}
		a.Transactions = append(a.Transactions, ArchivedTransaction{f.Int("pos"), *x})
		if err := a.document(k, x, r); err != nil {
			return nil, err
		}
	}
	if len(a.Captures) != p.Captures || len(a.Refunds) != p.Refunds || len(a.Transactions) == 0 {
		return nil, tollgate.Damage("payment", id, fmt.Errorf("it has %d captures and %d refunds, and %d and %d are there", p.Captures, p.Refunds, len(a.Captures), len(a.Refunds)))
	}
	return a, nil
}

// document adds the capture or the refund that a transaction moves.
func (a *Archived) document(k rediskv.Space, x *tollgate.Transaction, r *ledger.Records) (err error) {
	text := func(id string) string {
		_, number, _ := tollgate.NumberIn(id)
		return r.Part(number)
	}
	switch x.Type {
	case tollgate.TransactionCapture:
		c := tollgate.Capture{}
		if err = record.DecodeAt(k.Object(*x.CaptureID), text(*x.CaptureID), &c); err == nil && c.ID != *x.CaptureID {
			err = fmt.Errorf("the document is of %q", c.ID)
		}
		if a.Captures = append(a.Captures, c); err != nil {
			return tollgate.Damage("capture", *x.CaptureID, err)
		}
	case tollgate.TransactionRefund:
		r, err := refundOf(k, *x.RefundID, text(*x.RefundID))
		if err != nil {
			return err
		}
		a.Refunds = append(a.Refunds, *r)
	}
	return nil
}

// Row is the payment as a pack has it: JSON, without a line's end.
func (a *Archived) Row() ([]byte, error) { return bodies.Of(a) }

// ReadArchived reads what Row wrote.
func ReadArchived(row []byte) (*Archived, error) {
	a := new(Archived)
	if err := json.Unmarshal(row, a); err != nil {
		return nil, tollgate.Damage("payment", a.ID, fmt.Errorf("row of a pack: %w", err))
	}
	a.restore()
	return a, nil
}

// Finished reports whether nothing comes of the payment by itself any more, and nothing
// has since before a moment: it is at an end, and all that it moved is settled. Its
// authorization changes whenever it does.
func (a *Archived) Finished(before tollgate.Instant) bool {
	p := &a.Payment
	return p.Numbers > 0 && p.Status.Terminal() && !slices.ContainsFunc(a.Transactions, func(x ArchivedTransaction) bool {
		moves := x.Transaction.Type == tollgate.TransactionCapture || x.Transaction.Type == tollgate.TransactionFee || x.Transaction.Type == tollgate.TransactionRefund
		return x.Transaction.UpdatedAt >= before || moves && x.Transaction.Status != tollgate.TransactionSettled
	})
}

// restore puts back what the JSON of the objects leaves out.
func (a *Archived) restore() {
	p := &a.Payment
	a.Counters, a.Captures, a.Refunds = orNil(a.Counters), orNil(a.Captures), orNil(a.Refunds)
	p.Revision, p.Numbers, p.Counters = a.Revision, a.Numbers, a.Counters
	p.Captures, p.Refunds = len(a.Captures), len(a.Refunds)
	if p.ErasedAt = a.Ticket.ErasedAt; len(p.Metadata) == 0 {
		p.Metadata = nil
	}
}

// orNil is a list as it is before it has anything.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Records are the payment's records as Redis has them in a form.
func (a *Archived) Records(k rediskv.Space, form record.Form) (*ledger.Records, error) {
	p := &a.Payment
	if a.Organization != k.Org || p.ID != a.ID || a.Ticket.PaymentID != a.ID || !strings.HasPrefix(a.ID, tollgate.PrefixPayment) || p.Numbers == 0 {
		return nil, fmt.Errorf("%s: it is another one's", a.ID)
	}
	r := &ledger.Records{ID: a.ID, Parts: map[string]string{}}
	r.Payment = record.FieldsOf([]any(newFields(k.Object(p.ID), p, form)))
	text := func(id string, of any) (string, error) {
		text, err := record.Text(k.Object(id), of, form)
		return string(text), err
	}
	var err error
	if r.Ticket, err = text(p.TicketID, storedTicket(p, &a.Ticket)); err != nil {
		return nil, err
	}
	var repeated []string
	for i := range a.Transactions {
		t := &a.Transactions[i].Transaction
		of, number, _ := tollgate.NumberIn(t.ID)
		kind, sealed := record.KindOf(k.Object(t.ID)), ledger.TransactionFields(t).Sealed(k.Object(t.ID), nil)
		if number == tollgate.FirstNumber {
			repeated = kind.Repeated(record.FieldsOf([]any(sealed)))
		}
		fields := kind.Share(of, number, sealed, form, repeated)
		for n := 0; n+1 < len(fields); n += 2 {
			name, _ := fields[n].(string)
			value, is := fields[n+1].(string)
			if json, ok := fields[n+1].([]byte); ok && !is {
				value = string(json)
			}
			r.Parts[name] = value
		}
		r.Parts[number+".pos"] = strconv.FormatInt(a.Transactions[i].Position, 10)
	}
	document := func(id string, of any) error {
		_, number, _ := tollgate.NumberIn(id)
		text, err := text(id, of)
		record.PutPieces(r.Parts, number+rediskv.Document, text)
		return err
	}
	for i := range a.Captures {
		if err := document(a.Captures[i].ID, &a.Captures[i]); err != nil {
			return nil, err
		}
	}
	for i := range a.Refunds {
		if err := document(a.Refunds[i].ID, &a.Refunds[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// archivedInstead is a payment's hash and its ticket's text from the archive; missing is
// the error where it does not have them.
func (s *Store) archivedInstead(ctx context.Context, k rediskv.Space, id string, missing error) (rediskv.Fields, string, error) {
	if !rediskv.Gone(missing) {
		return nil, "", missing
	}
	r, err := s.ledger.ArchivedPayment(ctx, k, id)
	switch {
	case err != nil:
		return nil, "", s.db.Noticed(ctx, k, err)
	case r == nil || r.ID != id:
		return nil, "", missing
	}
	return r.Payment, r.Ticket, nil
}

// archivedPart is the text of a ticket, a capture or a refund from the archive, likewise.
func (s *Store) archivedPart(ctx context.Context, k rediskv.Space, prefix, id string, missing error) (string, error) {
	r, err := s.ledger.ArchivedPayment(ctx, k, id)
	if err != nil {
		return "", s.db.Noticed(ctx, k, err)
	}
	if r == nil || prefix == tollgate.PrefixTicket && tollgate.TicketOf(r.ID) != id {
		return "", missing
	}
	text := r.Ticket
	if prefix != tollgate.PrefixTicket {
		_, number, _ := tollgate.NumberIn(id)
		text = r.Part(number)
	}
	if text == "" {
		return "", missing
	}
	return text, nil
}

// archivedRefunds are the refunds of a payment that is in the archive.
func (s *Store) archivedRefunds(ctx context.Context, k rediskv.Space, payment string) (rows []tollgate.Refund, err error) {
	r, err := s.ledger.ArchivedPayment(ctx, k, payment)
	if err != nil || r == nil || r.ID != payment {
		return nil, s.db.Noticed(ctx, k, err)
	}
	_, found := ledger.PartsIn(k, sharedBy(payment), r.Parts)
	for _, f := range found {
		if f["ty"] != string(tollgate.TransactionRefund) {
			continue
		}
		_, number, _ := tollgate.NumberIn(f["rfd"])
		one, err := refundOf(k, f["rfd"], r.Part(number))
		if s.db.Noticed(ctx, k, err) != nil {
			one = &tollgate.Refund{Object: "refund", ID: f["rfd"], Damaged: true}
		}
		rows = append(rows, *one)
	}
	return rows, nil
}
