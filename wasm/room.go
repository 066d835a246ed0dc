package wasm

import (
	"maps"
	"sort"
	"sync"
	"sync/atomic"

	"tollgate"
)

// What a rule takes up, as an upper bound of what was measured on amd64: its
// machine code is up to 9 bytes for each byte of the module, and wazero keeps
// some 30 KiB of any module and of any instance beside its memory.
const (
	ruleBytes     = 32 << 10
	codeFactor    = 10
	instanceBytes = 32 << 10

	// largestRule is more than any module with one instance takes up.
	largestRule = 8 << 20

	// DefaultRoom is how many bytes the rules of an engine may take up, beside
	// those that it brings along.
	DefaultRoom = 192 << 20
	// LeastRoom is enough for any rule, with some others.
	LeastRoom = 16 << 20

	// leastKept is how many rules stay, those used last, whatever they take up:
	// a rule set runs together.
	leastKept = tollgate.MaxRules
)

// footprint is what a rule takes up. It does not refer to the rule, so that
// what counts an instance does not keep it.
type footprint struct {
	fixed, each int64 // bytes: of the rule, of an instance

	mu        sync.Mutex
	instances int64
	held      *atomic.Int64 // the engine's sum; nil while the rule is in none
}

func (f *footprint) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fixed + f.instances*f.each
}

// count adds instances; n may be negative.
func (f *footprint) count(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances += n
	if f.held != nil {
		f.held.Add(n * f.each)
	}
}

// enter begins to count the rule in an engine's sum, leave ends it: what was
// taken out is the garbage collector's.
func (f *footprint) enter(held *atomic.Int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = held
	held.Add(f.fixed + f.instances*f.each)
}

func (f *footprint) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held.Add(-(f.fixed + f.instances*f.each))
	f.held = nil
}

// lease is one counted instance.
type lease struct {
	of   *footprint
	once sync.Once
}

func (l *lease) end() { l.once.Do(func() { l.of.count(-1) }) }

// Limit sets how many bytes rules may take up beside those that the engine
// brings along. Call it before the first Load.
func (e *Engine) Limit(bytes int64) { e.room = bytes }

// Held is how many rules the engine has beside those that it brings along, and
// how many bytes they take up with their instances.
func (e *Engine) Held() (rules int, bytes int64) {
	for _, r := range *e.rules.Load() {
		if !r.builtin {
			rules++
		}
	}
	return rules, e.held.Load()
}

// Prefer says which rules are in force or soon will be: they go last. Then it
// makes room, for instances may have been added since the last Load.
func (e *Engine) Prefer(inForce func(tollgate.RuleRef) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.preferred = inForce
	if e.held.Load() <= e.room {
		return
	}
	after := maps.Clone(*e.rules.Load())
	e.makeRoom(after)
	e.rules.Store(&after)
}

// Spacious reports whether another rule can be loaded before anybody asks for
// it, without driving out one that is in force.
func (e *Engine) Spacious() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := int64(largestRule)
	for ref, r := range *e.rules.Load() {
		if !r.builtin && (e.preferred == nil || e.preferred(ref)) {
			held += r.size.bytes()
		}
	}
	return held <= e.room
}

// makeRoom takes rules out until the others fit: those that are not in force
// first, and of either kind those that nobody has used for the longest. A
// quote that runs one holds on to it: its code is freed when nobody does. e.mu
// is held.
func (e *Engine) makeRoom(rules map[tollgate.RuleRef]*rule) {
	if e.held.Load() <= e.room {
		return
	}
	var old []*rule
	for _, r := range rules {
		if !r.builtin {
			old = append(old, r)
		}
	}
	sort.Slice(old, func(i, j int) bool { return old[i].used.Load() < old[j].used.Load() })
	old = old[:max(0, len(old)-e.least)]
	inForce := func(r *rule) int {
		if e.preferred != nil && e.preferred(r.ref) {
			return 1
		}
		return 0
	}
	sort.SliceStable(old, func(i, j int) bool { return inForce(old[i]) < inForce(old[j]) })
	for _, r := range old {
		if e.held.Load() <= e.room {
			return
		}
		delete(rules, r.ref)
		r.size.leave()
	}
}
