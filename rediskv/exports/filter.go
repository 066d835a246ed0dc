package exports

import (
	"slices"

	"tollgate"
)

// filter selects the rows of a dataset.
type filter struct{ *tollgate.ExportFilter }

// selects reports whether a row of a dataset is selected.
func (f filter) selects(d tollgate.Dataset, row any) bool {
	switch r := row.(type) {
	case *tollgate.Transaction:
		return (d != tollgate.DatasetPayouts || r.Type == tollgate.TransactionPayout) && f.transaction(r)
	case *tollgate.Payment:
		return f.payment(r)
	case *tollgate.Ticket:
		return f.ticket(r)
	case *tollgate.Event:
		return f.event(r)
	case *tollgate.AuditEntry:
		return f.entry(r)
	}
	return false
}

// within reports whether a moment is between the filter's times.
func (f filter) within(at tollgate.Instant) bool {
	return (f.CreatedAfter == 0 || at > f.CreatedAfter) && (f.CreatedBefore == 0 || at < f.CreatedBefore)
}

// one reports whether a value is the wanted one, if one is wanted.
func one(want, have string) bool { return want == "" || want == have }

// payee is one for payees, which earlier releases stored in other spellings.
func payee(want, have string) bool { return want == "" || tollgate.SamePayee(want, have) }

func among(want []string, have string) bool { return len(want) == 0 || slices.Contains(want, have) }

func given(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (f filter) transaction(t *tollgate.Transaction) bool {
	return among(f.Accounts, t.MerchantAccountID) && among(f.Statuses, t.Status) && among(f.Types, string(t.Type)) &&
		one(f.PaymentID, given(t.PaymentID)) && one(f.PayoutID, given(t.PayoutID)) && payee(f.Payee, given(t.Payee)) &&
		one(f.Reference, given(t.Reference)) && one(f.Currency, string(t.Currency)) && f.within(t.CreatedAt)
}

func (f filter) payment(p *tollgate.Payment) bool {
	return among(f.Accounts, p.MerchantAccountID) && among(f.Statuses, string(p.Status)) && one(f.PaymentID, p.ID) &&
		payee(f.Payee, string(p.Payee)) && one(f.Reference, given(p.Reference)) && one(f.Currency, string(p.Currency)) && f.within(p.CreatedAt)
}

func (f filter) ticket(t *tollgate.Ticket) bool {
	return among(f.Accounts, t.MerchantAccountID) && one(f.PaymentID, t.PaymentID) && payee(f.Payee, string(t.Payee)) &&
		one(f.Currency, string(t.Currency)) && f.within(t.CreatedAt)
}

func (f filter) entry(e *tollgate.AuditEntry) bool {
	return among(f.Types, e.Type) && one(f.Outcome, e.Outcome) && f.within(e.Time)
}

func (f filter) event(e *tollgate.Event) bool {
	return tollgate.TypeFilter(f.Types).Match(string(e.Type)) && among(f.Accounts, given(e.MerchantAccountID)) &&
		(f.ObjectID == "" || e.Names(f.ObjectID)) && f.within(e.CreatedAt)
}
