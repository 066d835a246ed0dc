package payments

import (
	"strconv"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/hashes"
	"tollgate/rediskv/record"
)

var paymentTable = hashes.New[tollgate.Payment]()

// paymentFields is the payment's hash. Values are short, so that Redis keeps
// it as one block of memory; what a client did not send takes no room. A change
// writes all of it, too: the checksum is of these texts, and an earlier release may
// have written others for the same. Only the counters stay as they are.
func paymentFields(key string, p *tollgate.Payment, isNew bool) rediskv.Pairs {
	f := paymentTable.Pairs(p, true)
	f.Set("due", rediskv.Milli(p.Deadline()))
	fields := len(f)
	for i, counter := range p.Counters {
		f.Set(useField(i), counter)
	}
	if f.Sealed(key, nil); isNew {
		return f
	}
	return f[:fields]
}

// useField holds one of the counters that a payment was counted in.
func useField(i int) string { return "use" + strconv.Itoa(i) }

// uncounted stands for a counter that did not exist (tollgate.Reservation, Earlier). The
// build before looks for one of that name, which there is not.
const uncounted = "-"

// PaymentOf reads a payment's hash; its error is the damage of the payment.
func PaymentOf(id string, f rediskv.Fields) (*tollgate.Payment, error) {
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
