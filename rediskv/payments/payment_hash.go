package payments

import (
	"strconv"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/hashes"
	"tollgate/rediskv/record"
)

var paymentTable = hashes.New[tollgate.Payment]()

// newFields is the hash of a new payment. Values are short, so that Redis keeps it as one
// block of memory; what a client did not send takes no room.
func newFields(key string, p *tollgate.Payment, form record.Form) rediskv.Pairs {
	f, from, to := sealedFields(key, p)
	if form < record.Dense {
		return f
	}
	all := append(f[:from:from], record.PiecePairs(record.FoldField, record.KindOf(key).Fold(f[from:to]))...)
	return append(all, f[to:]...)
}

// changedFields is what a change writes of it: all but the counters, which stay as they
// are, because the checksum is of these texts, and an earlier release may have written
// others for the same. From an index on they are those that may be folded: then they are
// not written.
func changedFields(key string, p *tollgate.Payment) (f rediskv.Pairs, lasting int) {
	f, from, to := sealedFields(key, p)
	return f[:to], from
}

// sealedFields are all fields: those that change, from an index on those that never do, and
// from another on the counters.
func sealedFields(key string, p *tollgate.Payment) (f rediskv.Pairs, from, to int) {
	f = paymentTable.Pairs(p, true)
	for k := record.KindOf(key); from < len(f) && !k.Folds(f[from]); {
		from += 2
	}
	f.Set("due", rediskv.Milli(p.Deadline()))
	due := [2]any(f[len(f)-2:])
	copy(f[from+2:], f[from:]) // in front of those
	copy(f[from:], due[:])
	from, to = from+2, len(f)
	for i, counter := range p.Counters {
		f.Set(useField(i), counter)
	}
	return f.Sealed(key, nil), from, to
}

// useField holds one of the counters that a payment was counted in.
func useField(i int) string { return "use" + strconv.Itoa(i) }

// uncounted stands for a counter that did not exist (tollgate.Reservation, Earlier). The
// build before looks for one of that name, which there is not.
const uncounted = "-"

// PaymentOf reads a payment's hash; its error is the damage of the payment.
func PaymentOf(id string, f rediskv.Fields) (*tollgate.Payment, error) {
	f = record.UnfoldedAs(tollgate.PrefixPayment, f)
	r, p := record.ReadHash("payment", id, f), &tollgate.Payment{Object: "payment", ID: id, TicketID: tollgate.TicketOf(id)}
	paymentTable.Read(r, p)
	r.Moment("due") // of the scripts
	p.Counters = CountersOf(f)
	p.AmountRefunded.Currency = p.Currency
	p.AmountRefundable = tollgate.Money{Minor: p.AmountCaptured.Minor - p.AmountRefunded.Minor, Currency: p.Currency}
	if (p.Refunds == 0) != (p.AmountRefunded.Minor == 0) || p.Refunds > tollgate.MaxRefunds {
		r.Fault("rfn")
	}
	if p.Payee == "" && p.ErasedAt == 0 {
		r.Fault("payee")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := p.CheckInvariant(); err != nil {
		d := tollgate.Damage("payment", id, err)
		d.Damaged.MerchantAccountID = p.MerchantAccountID
		return nil, d
	}
	return p, nil
}

// CountersOf are the counters that a payment's hash names.
func CountersOf(f rediskv.Fields) (names []string) {
	for i := 0; f[useField(i)] != ""; i++ {
		if f[useField(i)] != uncounted {
			names = append(names, f[useField(i)])
		}
	}
	return names
}
