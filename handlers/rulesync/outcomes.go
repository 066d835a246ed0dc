package rulesync

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tollgate"
)

// A rule is failing that has failed at least so often within a minute, and more
// often than not.
const (
	failingWindow = time.Minute
	failingLeast  = 5
	windowParts   = 6
	mostWindows   = 1024 // rules that are watched at the same time
)

// PublishedRules is the name in metrics of all rules that tenants have
// published: there is no end to them.
const PublishedRules = "published"

// outcomes watch for rules that fail again and again. While none fails they
// cost a load of one number.
type outcomes struct {
	clock func() time.Time
	ever  atomic.Bool // whether any rule has failed

	mu      sync.Mutex
	windows map[tollgate.Citation]*outcomeWindow
	missing []tollgate.RuleRef // that cannot even be loaded
	told    string             // those that the log named last
}

// outcomeWindow counts the runs of a rule in parts of the last minute.
type outcomeWindow struct{ parts [windowParts]outcomePart }

type outcomePart struct {
	number       int64 // of the part, from the beginning of time
	runs, failed int
}

func newOutcomes(clock func() time.Time) *outcomes {
	return &outcomes{clock: clock, windows: make(map[tollgate.Citation]*outcomeWindow)}
}

// note counts a pricing: the rules before one that failed have run, those
// behind it have not. A refusal is no failure.
func (o *outcomes) note(rules []tollgate.RuleRef, err error) {
	var failed *tollgate.Citation
	if err != nil {
		if e, ok := errors.AsType[*tollgate.Error](err); ok && e.Code == tollgate.CodeRuleFailed {
			failed = e.Rule
		}
	}
	if failed == nil && !o.ever.Load() {
		return
	}
	o.ever.Store(true)
	now := o.clock()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ref := range rules {
		bad := failed != nil && *failed == ref.Rule
		w, ok := o.windows[ref.Rule]
		if !ok && bad && o.roomFor(now) {
			w = new(outcomeWindow)
			o.windows[ref.Rule] = w
		}
		if w != nil {
			w.count(now, bad)
		}
		if bad {
			return
		}
	}
}

// roomFor reports whether one more rule can be watched, and forgets those that
// have been quiet. o.mu is held.
func (o *outcomes) roomFor(now time.Time) bool {
	if len(o.windows) < mostWindows {
		return true
	}
	maps.DeleteFunc(o.windows, func(_ tollgate.Citation, w *outcomeWindow) bool {
		runs, _ := w.sum(now)
		return runs == 0
	})
	return len(o.windows) < mostWindows
}

// unloadable says which rules in force, or soon to be, cannot be loaded now.
func (o *outcomes) unloadable(rules []tollgate.RuleRef) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.missing = rules
}

func (w *outcomeWindow) count(now time.Time, failed bool) {
	n := partOf(now)
	p := &w.parts[n%windowParts]
	if p.number != n {
		*p = outcomePart{number: n}
	}
	p.runs++
	if failed {
		p.failed++
	}
}

// sum is the runs of the last minute, and how many of them failed.
func (w *outcomeWindow) sum(now time.Time) (runs, failed int) {
	for _, p := range w.parts {
		if partOf(now)-p.number < windowParts {
			runs, failed = runs+p.runs, failed+p.failed
		}
	}
	return runs, failed
}

func partOf(now time.Time) int64 { return now.UnixNano() / int64(failingWindow/windowParts) }

// failing lists rules that fail again and again or cannot be loaded, by name and
// version.
func (o *outcomes) failing() []tollgate.Citation {
	list, now := []tollgate.Citation{}, o.clock()
	o.mu.Lock()
	defer o.mu.Unlock()
	for rule, w := range o.windows {
		runs, failed := w.sum(now)
		switch {
		case failed >= failingLeast && 2*failed > runs:
			list = append(list, rule)
		case runs == 0:
			delete(o.windows, rule) // it has been quiet for a minute
		}
	}
	for _, ref := range o.missing {
		list = append(list, ref.Rule)
	}
	compare := func(a, b tollgate.Citation) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	}
	sort.Slice(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
	return slices.Compact(list)
}

// changed names these, and reports whether the log has yet to.
func (o *outcomes) changed(failing []tollgate.Citation) (names string, changed bool) {
	list := make([]string, len(failing))
	for i, rule := range failing {
		list[i] = rule.String()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.told
	o.told = strings.Join(list, " ")
	return o.told, o.told != before
}
