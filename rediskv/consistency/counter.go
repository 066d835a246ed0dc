package consistency

import "tollgate"

// Consumed is what a payment takes up of a counter that it was counted in, as it is
// now; restore says whether its perimeter has refunds give budgets back.
func Consumed(p *tollgate.Payment, counter string, restore bool) int64 {
	if !tollgate.CountsMoney(counter) {
		if p.Status.Terminal() && p.AmountCaptured.Minor == 0 {
			return 0
		}
		return 1
	}
	n := p.Amount.Minor
	if p.Status.Terminal() {
		n = p.AmountCaptured.Minor
	}
	if restore {
		n -= p.AmountRefunded.Minor
	}
	return n
}

// ConsumedBy is what one event of a payment has changed of what the payment takes up;
// first says that the event is that of its creation.
func ConsumedBy(p *tollgate.Payment, d *tollgate.PaymentEventData, first bool, counter string, restore bool) int64 {
	budget := tollgate.CountsMoney(counter)
	switch {
	case first:
		made := *p
		made.Status, made.AmountCaptured, made.AmountRefunded = d.Status, d.AmountCaptured, tollgate.Money{Currency: p.Currency}
		return Consumed(&made, counter, restore)
	case d.RefundID != "":
		if budget && restore {
			return -d.Amount.Minor
		}
		return 0
	case !d.Status.Terminal():
		return 0
	case budget:
		return d.AmountCaptured.Minor - p.Amount.Minor
	case d.AmountCaptured.Minor == 0:
		return -1
	}
	return 0
}

// CounterRecords are a counter of a limit, as it is, and what its payments take up.
type CounterRecords struct {
	Name     string
	There    bool
	Count    int64
	Consumed int64
	Until    tollgate.Instant // its window ends; 0: nobody knows
}

// Check compares them. A counter whose window is over may be gone.
func (r CounterRecords) Check(now tollgate.Instant) []Finding {
	switch {
	case r.There && r.Count != r.Consumed:
		return []Finding{Found(FindingCounter, "counter", r.Name, "it says %d, and its payments add up to %d", r.Count, r.Consumed)}
	case !r.There && r.Consumed != 0 && r.Until > now:
		return []Finding{Found(FindingCounter, "counter", r.Name, "it is not there, and its payments add up to %d", r.Consumed)}
	}
	return nil
}

// CountedUntil is when the window of a counter ends in which a payment of a perimeter was
// counted; 0 where the perimeter does not say.
func CountedUntil(p *tollgate.Perimeter, of *tollgate.Payment, counter string) tollgate.Instant {
	payee, err := tollgate.ParsePayee(string(of.Payee))
	if err != nil {
		return 0
	}
	for _, r := range p.Reservations(of.MerchantAccountID, of.Amount, payee, of.CreatedAt.Time()) {
		if r.Counter == counter && !r.Earlier {
			return r.Until
		}
	}
	return 0
}
