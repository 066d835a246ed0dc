package rate

import (
	"maps"
	"sync"
	"time"

	"tollgate/rediskv/gcra"
)

// Tally says when the refusals of strangers are written down. One that comes alone is
// written at once. When they come faster than writings, they are summed up, so that a
// flood of requests without a token is no flood of writes. Many goroutines use it.
type Tally struct {
	limiter *Limiter

	mutex   sync.Mutex
	waiting map[string]int64 // by reason
}

// writings is how many counts of strangers' refusals an instance writes.
var writings = gcra.Limit{Rate: 100, Period: time.Second, Burst: 200}

// NewTally makes one that has the clock of a limiter, and sums up nothing where that
// has no limits.
func NewTally(l *Limiter) *Tally {
	return &Tally{limiter: l, waiting: make(map[string]int64)}
}

// Add counts one refusal. What it returns is to be written now; 0: nothing.
func (t *Tally) Add(reason string) (refusals int64) {
	l := t.limiter
	now := l.forged.None() || !l.here.Take("strangers", writings, l.clock()).Refused()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if !now {
		t.waiting[reason]++
		return 0
	}
	refusals = t.waiting[reason] + 1
	delete(t.waiting, reason)
	return refusals
}

// Rest is what waits to be written, by reason, and waits no longer.
func (t *Tally) Rest() map[string]int64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	rest := maps.Clone(t.waiting)
	clear(t.waiting)
	return rest
}
