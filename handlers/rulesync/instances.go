// Package rulesync sees to it that an instance has the modules of every rule that
// is in force, or soon will be, before anybody asks for them, and that the others
// know what it has.
package rulesync

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"tollgate"
	"tollgate/handlers/share"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

const (
	// pollInterval is how long a change takes at most to be seen where the push of
	// it did not arrive. An instance says as often that it lives.
	pollInterval = time.Second
	// leaveTimeout bounds what an instance waits for Redis at its end.
	leaveTimeout = time.Second
)

// Config is what a Sync works with.
type Config struct {
	Store     *store.Store
	Engine    *wasm.Engine
	Instance  string // its id
	Compiling *share.Queue
	Clock     func() time.Time
	Wall      func() time.Time
	Log       *slog.Logger
	Builtin   []tollgate.RuleRef
	Keys      func(ctx context.Context, instance string, found instances.Look) // told of each look; nil: nobody is
}

// Sync keeps the rules that an instance must have: those that come with the
// service, those of activations to come, and those in force. It is safe for
// concurrent use.
type Sync struct {
	Config
	Fits     func() bool        // whether another rule in force can be loaded before anybody asks
	loads    sync.WaitGroup     // and the listing of what is in force
	fetching singleflight.Group // of modules
	tellMe   chan struct{}      // has a value when there is something to say
	outcomes *outcomes

	mu       sync.Mutex
	upcoming []instances.Upcoming
	leaving  []instances.Upcoming          // no longer to come, where what is in force has yet to be read
	expected bool                          // upcoming has been read
	inForce  map[string][]tollgate.RuleRef // by organization
	listed   bool                          // every organization has been read once
	listing  bool
	readAll  bool // all organizations are to be read
	read     map[string]bool
	rules    map[tollgate.RuleRef]*neededRule // of both
	queue    []*neededRule
	loading  int
	beyond   bool // more is in force than fits

	ahead      []string // organizations whose accounts and grants are to be read ahead
	preloading bool

	said  []instances.LoadedModule // that the others know of this instance
	heard bool                     // they do

	complete bool               // all have been tried once
	blocking []tollgate.RuleRef // that make this instance not ready
}

// New makes one that follows nothing yet.
func New(c Config) *Sync {
	return &Sync{
		Config: c, Fits: c.Engine.Spacious, tellMe: make(chan struct{}, 1), outcomes: newOutcomes(c.Clock),
		inForce: make(map[string][]tollgate.RuleRef), read: make(map[string]bool),
	}
}

// Follow loads what activations will put in force, before they do, and what is
// in force, tells the others what this instance has, and looks for changes that
// the push did not bring. The instance is not ready before everything in force
// has been tried. It ends with ctx; then the instance counts no more.
func (s *Sync) Follow(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var seen instances.Changes
	for look := true; ; {
		var err error
		if seen, err = s.follow(ctx, seen, look); err != nil && ctx.Err() == nil {
			s.Log.Warn("rules cannot be followed", "error", err)
		}
		look = true
		select {
		case <-ctx.Done():
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
			defer cancel()
			if err := s.Store.Deregister(leave, s.Instance); err != nil {
				s.Log.Warn("instance not signed off", "error", err)
			}
			s.loads.Wait()
			return
		case <-tick.C:
		case <-s.Store.Changed():
		case <-s.tellMe:
			look = false
		}
	}
}

// follow looks once, unless there is only something to say, and says what this
// instance has, where the others do not know it. Nothing in it takes long:
// rules are read and compiled beside it, and an instance that is at that lives,
// and lacks them.
func (s *Sync) follow(ctx context.Context, seen instances.Changes, look bool) (instances.Changes, error) {
	var all instances.Listing
	var lookErr, sayErr error
	if look {
		state := s.now()
		var found instances.Look
		found, lookErr = s.Store.Look(ctx, seen, instances.Instance{ID: s.Instance, Modules: state.modules}, s.lists())
		if lookErr == nil {
			seen, all = found.Changes, found.All
			s.mark(seen)
			s.expect(found.Upcoming)
			s.told(state)
			if s.Keys != nil {
				s.Keys(ctx, s.Instance, found)
			}
		}
	}
	s.listActive(ctx, all)
	s.loadNeeded(ctx)
	s.preload(ctx)
	state := s.now()
	if !s.knows(state) {
		if sayErr = s.Store.Heartbeat(ctx, instances.Instance{ID: s.Instance, Modules: state.modules}); sayErr == nil {
			s.told(state)
		}
	}
	return seen, errors.Join(lookErr, sayErr, s.findBlocking(ctx, state)) // ready only after the others know
}

// lists reports whether all organizations are to be listed after the next look, as
// far as that is known before.
func (s *Sync) lists() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.listing && (s.readAll || !s.listed)
}

// told remembers what the others know.
func (s *Sync) told(now state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said, s.heard = now.modules, true
}

// knows reports whether the others know how far this instance is.
func (s *Sync) knows(now state) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard && slices.Equal(s.said, now.modules)
}

// conclude finds that everything has been tried, where there is nothing to say of it:
// an instance need not wait for the next look to be ready.
func (s *Sync) conclude() {
	if now := s.now(); now.complete && len(now.failing) == 0 && s.knows(now) {
		s.mu.Lock()
		s.complete = true
		s.mu.Unlock()
	}
}

// mark remembers whose rules in force have to be read.
func (s *Sync) mark(c instances.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAll = s.readAll || c.All
	for _, org := range c.Organizations {
		s.read[org] = true
	}
}

// expect takes what is to come. What no longer is may be in force by now: its
// rules are needed until that has been read.
func (s *Sync) expect(upcoming []instances.Upcoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = slices.DeleteFunc(append(s.leaving, s.upcoming...), func(a instances.Upcoming) bool {
		stays := slices.ContainsFunc(upcoming, func(u instances.Upcoming) bool { return u.ID == a.ID })
		return stays || (!s.listing && !s.unread(a))
	})
	sort.Slice(upcoming, func(i, j int) bool { return upcoming[i].At < upcoming[j].At })
	s.upcoming, s.expected = upcoming, true
}

// unread reports whether what is in force in the organization of an activation
// is to be read. s.mu is held.
func (s *Sync) unread(a instances.Upcoming) bool { return s.readAll || s.read[a.Organization] }

// listActive reads, beside everything else, what is in force where that may
// have changed. A listing of all goes on from where it has begun.
func (s *Sync) listActive(ctx context.Context, begun instances.Listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing || (!s.readAll && len(s.read) == 0) {
		return
	}
	all, orgs := s.readAll, slices.Sorted(maps.Keys(s.read))
	s.listing, s.readAll = true, false
	clear(s.read)
	s.loads.Go(func() {
		some := func(ids []string) error { return s.readActive(ctx, ids) }
		var err error
		if all {
			err = s.Store.Organizations(ctx, begun, some)
		} else {
			err = some(orgs)
		}
		s.mu.Lock()
		s.listing = false
		if err == nil {
			s.listed = s.listed || all
		} else {
			s.readAll = s.readAll || all
			for _, org := range orgs {
				s.read[org] = true
			}
		}
		s.leaving = slices.DeleteFunc(s.leaving, func(a instances.Upcoming) bool { return !s.unread(a) })
		s.mu.Unlock()
		s.conclude()
		switch {
		case err == nil:
			s.tell() // there may be more to read, and to load
		case ctx.Err() == nil:
			s.Log.Warn("what is in force cannot be read", "error", err)
		}
	})
}

func (s *Sync) readActive(ctx context.Context, orgs []string) error {
	found, err := s.Store.ActiveRules(ctx, orgs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for _, org := range orgs {
		delete(s.inForce, org)
	}
	maps.Copy(s.inForce, found)
	s.ahead = append(s.ahead, orgs...)
	s.mu.Unlock()
	s.loadNeeded(ctx) // while the next ones are read
	return nil
}

// tell makes Follow look, and say what there is, at once.
func (s *Sync) tell() {
	select {
	case s.tellMe <- struct{}{}:
	default: // it will
	}
}

// state is how far an instance is at one moment.
type state struct {
	modules  []instances.LoadedModule // rules of activations to come that it has, and what it cannot load
	failing  []tollgate.RuleRef       // the latter
	complete bool                     // everything has been tried
}

func (s *Sync) now() (now state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now.complete = s.expected && s.listed && !s.listing
	for ref, n := range s.rules {
		switch {
		case n.state == unloadable:
			now.failing = append(now.failing, ref)
			now.modules = append(now.modules, instances.LoadedModule{RuleRef: ref, Error: ref.Rule.String() + " cannot be loaded"})
		case n.state == loaded && n.upcoming:
			now.modules = append(now.modules, instances.LoadedModule{RuleRef: ref})
		case n.state == untried && n.ahead:
			now.complete = false
		}
	}
	sort.Slice(now.failing, func(i, j int) bool { return compareRefs(now.failing[i], now.failing[j]) < 0 })
	sort.Slice(now.modules, func(i, j int) bool { return compareRefs(now.modules[i].RuleRef, now.modules[j].RuleRef) < 0 })
	return now
}

// findBlocking decides which rules make this instance not ready: those that it cannot
// load, where another instance may be able to, or nobody else lives who could
// tell. What none of several instances can load is the rule's fault: it fails its
// own payments, and must not take those of everybody else along.
func (s *Sync) findBlocking(ctx context.Context, now state) (err error) {
	var others []instances.Instance
	if len(now.failing) > 0 {
		others, err = s.Store.Instances(ctx)
		others = slices.DeleteFunc(others, func(i instances.Instance) bool { return i.ID == s.Instance })
	}
	var blocking []tollgate.RuleRef
	for _, ref := range now.failing {
		mayHave := func(i instances.Instance) bool { return !i.CannotLoad(ref) }
		if len(others) == 0 || slices.ContainsFunc(others, mayHave) {
			blocking = append(blocking, ref)
		}
	}
	s.outcomes.unloadable(now.failing)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocking, s.complete = blocking, s.complete || now.complete
	return err
}

func compareRefs(a, b tollgate.RuleRef) int {
	return cmp.Or(cmp.Compare(a.Rule.Name, b.Rule.Name), cmp.Compare(a.Rule.Version, b.Rule.Version), cmp.Compare(a.SHA256, b.SHA256))
}

// Note counts how modules that priced something have fared.
func (s *Sync) Note(rules []tollgate.RuleRef, err error) { s.outcomes.note(rules, err) }

// FailingByName counts those that fail, by citation; all that tenants have
// published are one.
func (s *Sync) FailingByName() map[string]int {
	count := make(map[string]int)
	for _, rule := range s.outcomes.failing() {
		name := PublishedRules
		if slices.ContainsFunc(s.Builtin, func(ref tollgate.RuleRef) bool { return ref.Rule == rule }) {
			name = rule.String()
		}
		count[name]++
	}
	return count
}

// Failing is how many rules fail everywhere: that is the rule's fault, and sending
// requests elsewhere would help nobody. The log names them when they change.
func (s *Sync) Failing() int {
	list := s.outcomes.failing()
	if names, changed := s.outcomes.changed(list); changed {
		s.Log.Warn("failing rules", "rules", names)
	}
	return len(list)
}

// Check is what readiness says of the rules that this instance must have: "ok";
// "loading", what is in force is not here yet; "missing", it, or what soon will be,
// cannot be loaded.
func (s *Sync) Check() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.blocking) > 0, slices.ContainsFunc(s.Builtin, func(rule tollgate.RuleRef) bool { return !s.Engine.Has(rule) }):
		return "missing"
	case !s.complete:
		return "loading"
	default:
		return "ok"
	}
}
