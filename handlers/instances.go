package handlers

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"tollgate"
	"tollgate/rediskv"
)

const (
	// pollInterval is how long a change takes at most to be seen where the push of
	// it did not arrive. An instance says as often that it lives.
	pollInterval = time.Second
	// failedPause is after how many times of what it took a rule is tried again
	// that could not be loaded: compiling in vain must not take a whole core.
	failedPause = 4
)

// following is what an instance knows of the rules that it must have: those of
// activations to come, and those in force.
type following struct {
	fits   func() bool    // whether another rule in force can be loaded before anybody asks
	loads  sync.WaitGroup // and the listing of what is in force
	tellMe chan struct{}  // has a value when there is something to say

	mu       sync.Mutex
	upcoming []rediskv.Upcoming
	leaving  []rediskv.Upcoming            // no longer to come, where what is in force has yet to be read
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

	complete bool               // all have been tried once
	blocking []tollgate.RuleRef // that make this instance not ready
}

// neededRule is a rule that an instance must have.
type neededRule struct {
	ref          tollgate.RuleRef
	organization string // that has published it
	upcoming     bool   // an activation names it
	ahead        bool   // it is loaded before anybody asks for it
	state        loadState
	loading      bool
	again        time.Time // when to try once more what failed
}

type loadState int

const (
	untried loadState = iota
	loaded            // once: the engine may have made room since, and then loads it when it is asked for
	unloadable
)

// Follow loads what activations will put in force, before they do, and what is
// in force, tells the others what this instance has, and looks for changes that
// the push did not bring. The instance is not ready before everything in force
// has been tried. It ends with ctx; then the instance counts no more.
func (s *Server) Follow(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var seen rediskv.Changes
	s.lookAtMemory(ctx)
	for {
		var err error
		if seen, err = s.follow(ctx, seen); err != nil && ctx.Err() == nil {
			s.log.Warn("rules cannot be followed", "error", err)
		}
		select {
		case <-ctx.Done():
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
			defer cancel()
			if err := s.store.Leave(leave, s.instance); err != nil {
				s.log.Warn("instance not signed off", "error", err)
			}
			s.following.loads.Wait()
			return
		case <-tick.C:
			s.lookAtMemory(ctx)
		case <-s.store.Changed():
		case <-s.following.tellMe:
		}
	}
}

// follow looks once, and says what this instance has. Nothing in it takes long:
// rules are read and compiled beside it, and an instance that is at that lives,
// and lacks them.
func (s *Server) follow(ctx context.Context, seen rediskv.Changes) (rediskv.Changes, error) {
	f := &s.following
	// In this order: what is no longer to come has changed something by then.
	upcoming, upcomingErr := s.store.Upcoming(ctx)
	now, pollErr := s.store.Poll(ctx, seen)
	if pollErr == nil {
		seen = now
		f.note(now)
		if upcomingErr == nil {
			f.expect(upcoming)
		}
	}
	s.listInForce(ctx)
	s.loadNeeded(ctx)
	s.preload(ctx)
	state := f.now()
	sayErr := s.store.Say(ctx, rediskv.Instance{ID: s.instance, Modules: state.modules})
	return seen, errors.Join(pollErr, upcomingErr, sayErr, s.judge(ctx, state)) // ready only after the others know
}

// note remembers whose rules in force have to be read.
func (f *following) note(c rediskv.Changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readAll = f.readAll || c.All
	for _, org := range c.Organizations {
		f.read[org] = true
	}
}

// expect takes what is to come. What no longer is may be in force by now: its
// rules are needed until that has been read.
func (f *following) expect(upcoming []rediskv.Upcoming) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving = slices.DeleteFunc(append(f.leaving, f.upcoming...), func(a rediskv.Upcoming) bool {
		stays := slices.ContainsFunc(upcoming, func(u rediskv.Upcoming) bool { return u.ID == a.ID })
		return stays || (!f.listing && !f.unread(a))
	})
	slices.SortFunc(upcoming, func(a, b rediskv.Upcoming) int { return cmp.Compare(a.At, b.At) })
	f.upcoming, f.expected = upcoming, true
}

// unread reports whether what is in force in the organization of an activation
// is to be read. f.mu is held.
func (f *following) unread(a rediskv.Upcoming) bool { return f.readAll || f.read[a.Organization] }

// listInForce reads, beside everything else, what is in force where that may
// have changed.
func (s *Server) listInForce(ctx context.Context) {
	f := &s.following
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listing || (!f.readAll && len(f.read) == 0) {
		return
	}
	all, orgs := f.readAll, slices.Sorted(maps.Keys(f.read))
	f.listing, f.readAll = true, false
	clear(f.read)
	f.loads.Go(func() {
		some := func(ids []string) error { return s.readInForce(ctx, ids) }
		var err error
		if all {
			err = s.store.Organizations(ctx, some)
		} else {
			err = some(orgs)
		}
		f.mu.Lock()
		f.listing = false
		if err == nil {
			f.listed = f.listed || all
		} else {
			f.readAll = f.readAll || all
			for _, org := range orgs {
				f.read[org] = true
			}
		}
		f.leaving = slices.DeleteFunc(f.leaving, func(a rediskv.Upcoming) bool { return !f.unread(a) })
		f.mu.Unlock()
		switch {
		case err == nil:
			f.tell() // there may be more to read, and to load
		case ctx.Err() == nil:
			s.log.Warn("what is in force cannot be read", "error", err)
		}
	})
}

func (s *Server) readInForce(ctx context.Context, orgs []string) error {
	found, err := s.store.InForce(ctx, orgs)
	if err != nil {
		return err
	}
	f := &s.following
	f.mu.Lock()
	for _, org := range orgs {
		delete(f.inForce, org)
	}
	maps.Copy(f.inForce, found)
	f.ahead = append(f.ahead, orgs...)
	f.mu.Unlock()
	s.loadNeeded(ctx) // while the next ones are read
	return nil
}

// loadNeeded begins to load what is missing, a few rules at a time: what
// activations name first, which wait for it.
func (s *Server) loadNeeded(ctx context.Context) {
	f := &s.following
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan(s.rules.Has, s.wall())
	needed := f.rules // nobody changes it any more
	s.rules.Prefer(func(ref tollgate.RuleRef) bool { return needed[ref] != nil })
	s.loadNext(ctx)
}

// plan finds out which rules are needed, and queues those that are to be loaded.
func (f *following) plan(has func(tollgate.RuleRef) bool, now time.Time) {
	before := f.rules
	f.rules = make(map[tollgate.RuleRef]*neededRule, len(before))
	f.queue = nil
	var more []*neededRule
	need := func(org string, ref tollgate.RuleRef, upcoming bool) {
		if f.rules[ref] != nil {
			return
		}
		n := before[ref]
		if n == nil {
			n = &neededRule{ref: ref, organization: org}
		}
		f.rules[ref] = n
		n.upcoming = upcoming
		if has(ref) {
			n.state = loaded
		}
		switch {
		case n.state == loaded || n.loading:
		case n.state == unloadable && now.Before(n.again):
		case upcoming:
			n.ahead = true
			f.queue = append(f.queue, n)
		default:
			n.ahead = false
			more = append(more, n)
		}
	}
	for _, a := range slices.Concat(f.upcoming, f.leaving) {
		for _, ref := range a.Rules {
			need(a.Organization, ref, true)
		}
	}
	// One rule of each organization after the other: none waits for all of another.
	for i, left := 0, true; left; i++ {
		left = false
		for org, refs := range f.inForce {
			if i < len(refs) {
				need(org, refs[i], false)
				left = true
			}
		}
	}
	for _, n := range more {
		n.ahead = true
		f.queue = append(f.queue, n)
	}
}

// loadNext loads from the queue: on all cores until the instance is ready, and
// then on half of them, because requests come first. What is in force and does
// not fit waits until somebody asks for it: it would only drive out what is
// used. f.mu is held.
func (s *Server) loadNext(ctx context.Context) {
	f := &s.following
	most := runtime.GOMAXPROCS(0)
	if f.complete {
		most = max(1, most/2)
	}
	for len(f.queue) > 0 && f.loading < most && ctx.Err() == nil {
		n := f.queue[0]
		f.queue = f.queue[1:]
		if !n.upcoming && !f.fits() {
			n.ahead = false
			if !f.beyond {
				s.log.Warn("more rules are in force than an instance keeps; it loads the others when they are asked for")
			}
			f.beyond = true
			continue
		}
		f.beyond = f.beyond && n.upcoming
		f.loading++
		n.loading = true
		f.loads.Go(func() { s.load(ctx, n) })
	}
}

func (s *Server) load(ctx context.Context, n *neededRule) {
	start := s.wall()
	err := s.loadRule(ctx, n.organization, n.ref)
	end := s.wall()

	f := &s.following
	f.mu.Lock()
	f.loading--
	n.loading = false
	before := n.state
	switch {
	case err == nil:
		n.state = loaded
	case !passes(err): // else it is tried again soon
		n.state, n.again = unloadable, end.Add(failedPause*end.Sub(start))
	}
	after := n.state
	changed := after != before
	tell := changed && (n.upcoming || after == unloadable || before == unloadable || (len(f.queue) == 0 && f.loading == 0))
	s.loadNext(ctx)
	f.mu.Unlock()

	switch {
	case changed && after == unloadable:
		s.log.Error("a rule cannot be loaded", "rule", n.ref.Rule.String(), "sha256", n.ref.SHA256, "organization_id", n.organization, "error", err)
	case changed && before == unloadable:
		s.log.Info("a rule can be loaded again", "rule", n.ref.Rule.String(), "sha256", n.ref.SHA256, "organization_id", n.organization)
	}
	if tell {
		f.tell()
	}
}

// tell makes Follow look, and say what there is, at once.
func (f *following) tell() {
	select {
	case f.tellMe <- struct{}{}:
	default: // it will
	}
}

// state is how far an instance is at one moment.
type state struct {
	modules  []rediskv.LoadedModule // rules of activations to come that it has, and what it cannot load
	failing  []tollgate.RuleRef     // the latter
	complete bool                   // everything has been tried
}

func (f *following) now() (now state) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now.complete = f.expected && f.listed && !f.listing
	for ref, n := range f.rules {
		switch {
		case n.state == unloadable:
			now.failing = append(now.failing, ref)
			now.modules = append(now.modules, rediskv.LoadedModule{RuleRef: ref, Error: ref.Rule.String() + " cannot be loaded"})
		case n.state == loaded && n.upcoming:
			now.modules = append(now.modules, rediskv.LoadedModule{RuleRef: ref})
		case n.state == untried && n.ahead:
			now.complete = false
		}
	}
	slices.SortFunc(now.failing, compareRefs)
	slices.SortFunc(now.modules, func(a, b rediskv.LoadedModule) int { return compareRefs(a.RuleRef, b.RuleRef) })
	return now
}

// judge decides which rules make this instance not ready: those that it cannot
// load, where another instance may be able to, or nobody else lives who could
// tell. What none of several instances can load is the rule's fault: it fails its
// own payments, and must not take those of everybody else along.
func (s *Server) judge(ctx context.Context, now state) (err error) {
	var others []rediskv.Instance
	if len(now.failing) > 0 {
		others, err = s.store.Instances(ctx)
		others = slices.DeleteFunc(others, func(i rediskv.Instance) bool { return i.ID == s.instance })
	}
	var blocking []tollgate.RuleRef
	for _, ref := range now.failing {
		mayHave := func(i rediskv.Instance) bool { return !i.CannotLoad(ref) }
		if len(others) == 0 || slices.ContainsFunc(others, mayHave) {
			blocking = append(blocking, ref)
		}
	}
	s.outcomes.unloadable(now.failing)
	f := &s.following
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blocking, f.complete = blocking, f.complete || now.complete
	return err
}

func compareRefs(a, b tollgate.RuleRef) int {
	return cmp.Or(cmp.Compare(a.Rule.Name, b.Rule.Name), cmp.Compare(a.Rule.Version, b.Rule.Version), cmp.Compare(a.SHA256, b.SHA256))
}

// rulesCheck is what readiness says of the rules.
func (f *following) rulesCheck() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.blocking) > 0:
		return "missing"
	case !f.complete:
		return "loading"
	default:
		return "ok"
	}
}
