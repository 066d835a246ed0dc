package payments

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tollgate"
	"tollgate/rediskv"
)

// counterKept is how long a counter outlives its window, which nobody asks about
// any more: longer than clocks are apart.
const counterKept = 24 * time.Hour

// ExhaustedError says which limit of its perimeter has no room for a payment.
// Nothing was written.
type ExhaustedError struct{ Use tollgate.Use }

func (e *ExhaustedError) Error() string { return "perimeter: " + string(e.Use.Reason) }

// consumed appends what a new payment consumes.
func consumed(inv *rediskv.Invocation, k rediskv.Space, uses []tollgate.Use, now tollgate.Instant) {
	for _, u := range uses {
		var lifetime any = int64(u.Until-now) + counterKept.Milliseconds()
		if u.Earlier {
			lifetime = ""
		}
		inv.Keys = append(inv.Keys, k.Counter(u.Counter))
		inv.Args = append(inv.Args, u.Add, u.Most, lifetime)
	}
}

// returned appends what a payment gives back.
func returned(inv *rediskv.Invocation, k rediskv.Space, ch *tollgate.PaymentChange) {
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

// exhausted is the error for the use that a script found too much.
func exhausted(uses []tollgate.Use, rest []any) error {
	text, _ := rest[0].(string)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > len(uses) {
		return fmt.Errorf("redis create_payment: use %q of %d", text, len(uses))
	}
	return &ExhaustedError{uses[n-1]}
}

// Exhausted reads the counters of what a payment would consume and returns the
// first that has no room for it; nil when all have. Damage is an error where the
// script that pays says so too. Without uses it asks Redis nothing. Of a Redis
// that was away a moment ago, and has not been heard of since, it says so at once.
func (s *Store) Exhausted(ctx context.Context, org string, uses []tollgate.Use) (*tollgate.Use, error) {
	if len(uses) == 0 {
		return nil, nil
	}
	names := make([]string, len(uses))
	for i, u := range uses {
		names[i] = u.Counter
	}
	if s.db.Cache.Doubted(s.db.Clock()) {
		return nil, rediskv.StoreUnavailable("read_counters", errors.New("it was away a moment ago"))
	}
	have, err := s.Counters(ctx, org, names)
	if rediskv.Away(err) {
		s.db.Cache.Doubt(s.db.Clock())
	}
	if err != nil {
		return nil, err
	}
	for i := range uses {
		if have[i].Damage != nil {
			return nil, have[i].Damage
		}
		if have[i].Count+uses[i].Add > uses[i].Most {
			return &uses[i], nil
		}
	}
	return nil, nil
}
