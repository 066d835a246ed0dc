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
	f, counters := sealedFields(key, p, form)
	return append(f, counters...)
}

// changedFields is what a change writes of it: all but the counters, which stay as they
// are, because the checksum is of these texts, and an earlier release may have written
// others for the same.
func changedFields(key string, p *tollgate.Payment, form record.Form) rediskv.Pairs {
	f, _ := sealedFields(key, p, form)
	return f
}

// sealedFields are all fields in a form, and those of the counters.
func sealedFields(key string, p *tollgate.Payment, form record.Form) (f, counters rediskv.Pairs) {
	f = paymentTable.Pairs(p, true)
	f.Set("due", rediskv.Milli(p.Deadline()))
	end := len(f)
	for i, counter := range p.Counters {
		f.Set(useField(i), counter)
	}
	f = f.Sealed(key, nil)
	if f, counters = f[:end:end], f[end:]; form < record.Dense {
		return f, counters
	}
	k := record.KindOf(key)
	beside := make(rediskv.Pairs, 0, 16)
	for i := 0; i < len(f); i += 2 {
		if !k.Folds(f[i]) && f[i+1] != "" {
			beside = append(beside, f[i], f[i+1])
		}
	}
	return append(beside, record.PiecePairs(record.FoldField, k.Fold(f))...), counters
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
