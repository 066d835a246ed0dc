package rulesync

import (
	"context"
	"runtime"
	"slices"
	"time"

	"tollgate"
)

// failedPause is after how many times of what it took a rule is tried again
// that could not be loaded: compiling in vain must not take a whole core.
const failedPause = 4

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

// loadNeeded begins to load what is missing, a few rules at a time: what
// activations name first, which wait for it.
func (s *Sync) loadNeeded(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan(s.Engine.Has, s.Wall())
	needed := s.rules // nobody changes it any more
	s.Engine.Prefer(func(ref tollgate.RuleRef) bool { return needed[ref] != nil })
	s.loadNext(ctx)
}

// plan finds out which rules are needed, and queues those that are to be loaded.
func (s *Sync) plan(has func(tollgate.RuleRef) bool, now time.Time) {
	before := s.rules
	s.rules = make(map[tollgate.RuleRef]*neededRule, len(before))
	s.queue = nil
	var more []*neededRule
	need := func(org string, ref tollgate.RuleRef, upcoming bool) {
		if s.rules[ref] != nil {
			return
		}
		n := before[ref]
		if n == nil {
			n = &neededRule{ref: ref, organization: org}
		}
		s.rules[ref] = n
		n.upcoming = upcoming
		if has(ref) {
			n.state = loaded
		}
		switch {
		case n.state == loaded || n.loading:
		case n.state == unloadable && now.Before(n.again):
		case upcoming:
			n.ahead = true
			s.queue = append(s.queue, n)
		default:
			n.ahead = false
			more = append(more, n)
		}
	}
	for _, a := range slices.Concat(s.upcoming, s.leaving) {
		for _, ref := range a.Rules {
			need(a.Organization, ref, true)
		}
	}
	// One rule of each organization after the other: none waits for all of another.
	for i, left := 0, true; left; i++ {
		left = false
		for org, refs := range s.inForce {
			if i < len(refs) {
				need(org, refs[i], false)
				left = true
			}
		}
	}
	for _, n := range more {
		n.ahead = true
		s.queue = append(s.queue, n)
	}
}

// loadNext loads from the queue: on all cores until the instance is ready, and
// then on half of them, because requests come first. What is in force and does
// not fit waits until somebody asks for it: it would only drive out what is
// used. s.mu is held.
func (s *Sync) loadNext(ctx context.Context) {
	most := runtime.GOMAXPROCS(0)
	if s.complete {
		most = max(1, most/2)
	}
	for len(s.queue) > 0 && s.loading < most && ctx.Err() == nil {
		n := s.queue[0]
		s.queue = s.queue[1:]
		if !n.upcoming && !s.Fits() {
			n.ahead = false
			if !s.beyond {
				s.Log.Warn("more rules are in force than an instance keeps; it loads the others when they are asked for")
			}
			s.beyond = true
			continue
		}
		s.beyond = s.beyond && n.upcoming
		s.loading++
		n.loading = true
		s.loads.Go(func() { s.load(ctx, n) })
	}
}

func (s *Sync) load(ctx context.Context, n *neededRule) {
	start := s.Wall()
	err := s.loadRule(ctx, n.organization, n.ref)
	end := s.Wall()

	s.mu.Lock()
	s.loading--
	n.loading = false
	before := n.state
	switch {
	case err == nil:
		n.state = loaded
	case !Passes(err): // else it is tried again soon
		n.state, n.again = unloadable, end.Add(failedPause*end.Sub(start))
	}
	after := n.state
	changed := after != before
	tell := changed && (n.upcoming || after == unloadable || before == unloadable || (len(s.queue) == 0 && s.loading == 0))
	s.loadNext(ctx)
	s.mu.Unlock()
	s.conclude()

	switch {
	case changed && after == unloadable:
		s.Log.Error("a rule cannot be loaded", "rule", n.ref.Rule.String(), "sha256", n.ref.SHA256, "organization_id", n.organization, "error", err)
	case changed && before == unloadable:
		s.Log.Info("a rule can be loaded again", "rule", n.ref.Rule.String(), "sha256", n.ref.SHA256, "organization_id", n.organization)
	}
	if tell {
		s.tell()
	}
}

// preload reads, beside everything else, what quotes need of the organizations
// whose rules in force have been read, so that quotes go on while Redis is away.
// It never makes anybody wait: an instance is ready without it. What could not
// be read is read when Redis is back, with the next look.
func (s *Sync) preload(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = append(s.ahead, s.Store.Stale()...)
	if s.preloading || len(s.ahead) == 0 {
		return
	}
	s.preloading = true
	s.loads.Go(func() {
		var err error
		for err == nil {
			s.mu.Lock()
			if len(s.ahead) == 0 {
				s.preloading = false
				s.mu.Unlock()
				return
			}
			org := s.ahead[0]
			s.ahead = s.ahead[1:]
			s.mu.Unlock()
			if err = s.Store.Preload(ctx, org); err != nil {
				s.mu.Lock()
				s.ahead = append(s.ahead, org)
				s.preloading = false
				s.mu.Unlock()
			}
		}
	})
}
