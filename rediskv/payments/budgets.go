package payments

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/script"
)

// CounterKept is how long a counter outlives its window, which nobody asks about
// any more: longer than clocks are apart.
const CounterKept = 24 * time.Hour

// BudgetError says which limit of its perimeter has no room for a payment.
// Nothing was written.
type BudgetError struct{ Reservation tollgate.Reservation }

func (e *BudgetError) Error() string { return "perimeter: " + string(e.Reservation.Reason) }

// consumed appends what a new payment consumes.
func consumed(inv *script.Invocation, k rediskv.Space, reservations []tollgate.Reservation, now tollgate.Instant) {
	for _, r := range reservations {
		var lifetime any = int64(r.Until-now) + CounterKept.Milliseconds()
		if r.Earlier {
			lifetime = ""
		}
		inv.Keys = append(inv.Keys, k.Counter(r.Counter))
		inv.Args = append(inv.Args, r.Add, r.Most, lifetime)
	}
}

// returned appends what a payment gives back.
func returned(inv *script.Invocation, k rediskv.Space, ch *tollgate.PaymentChange) {
	for _, counter := range returning(ch) {
		inv.Keys = append(inv.Keys, k.Counter(counter))
		inv.Args = append(inv.Args, ch.Return(counter))
	}
}

func returning(ch *tollgate.PaymentChange) (counters []string) {
	for _, counter := range ch.Payment.Counters {
		if ch.Return(counter) != 0 {
			counters = append(counters, counter)
		}
	}
	return counters
}

// exceeded is the error for the use that a script found too much.
func exceeded(reservations []tollgate.Reservation, rest []any) error {
	text, _ := rest[0].(string)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > len(reservations) {
		return fmt.Errorf("redis create_payment: use %q of %d", text, len(reservations))
	}
	return &BudgetError{reservations[n-1]}
}

// Exceeded reads the counters of what a payment would consume and returns the
// first that has no room for it; nil when all have. Damage is an error where the
// script that pays says so too. Without reservations it asks Redis nothing. Of a Redis
// that was away a moment ago, and has not been heard of since, it says so at once.
func (s *Store) Exceeded(ctx context.Context, org string, reservations []tollgate.Reservation) (*tollgate.Reservation, error) {
	if len(reservations) == 0 {
		return nil, nil
	}
	names := make([]string, len(reservations))
	for i, r := range reservations {
		names[i] = r.Counter
	}
	if s.db.Doubted() {
		return nil, rediskv.StoreUnavailable("read_counters", errors.New("it was away a moment ago"))
	}
	have, err := s.Counters(ctx, org, names)
	if rediskv.Away(err) {
		s.db.Doubt()
	}
	if err != nil {
		return nil, err
	}
	for i := range reservations {
		if have[i].Damage != nil {
			return nil, have[i].Damage
		}
		if have[i].Count+reservations[i].Add > reservations[i].Most {
			return &reservations[i], nil
		}
	}
	return nil, nil
}
