package handlers

import (
	"context"
	"slices"
	"sync"
	"time"

	"tollgate"
	"tollgate/rediskv"
)

// pollInterval is how long a change takes at most to be seen where the push of
// it did not arrive.
const pollInterval = time.Second

// following is what an instance knows of activations that are still to come.
type following struct {
	mu      sync.Mutex
	failing []rediskv.LoadedModule
}

// Follow loads what activations will put in force, before they do, tells the
// others what this instance has, and looks for changes that the push did not
// bring. It ends with ctx; then the instance counts no more.
func (s *Server) Follow(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	seen := ""
	for {
		var err error
		if seen, err = s.follow(ctx, seen); err != nil && ctx.Err() == nil {
			s.log.Warn("activations cannot be followed", "error", err)
		}
		select {
		case <-ctx.Done():
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
			defer cancel()
			if err := s.store.Leave(leave, s.instance); err != nil {
				s.log.Warn("instance not signed off", "error", err)
			}
			return
		case <-tick.C:
		case <-s.store.Changed():
		}
	}
}

func (s *Server) follow(ctx context.Context, seen string) (string, error) {
	seen, err := s.store.Poll(ctx, seen)
	if err != nil {
		return seen, err
	}
	upcoming, err := s.store.Upcoming(ctx)
	if err != nil {
		return seen, err
	}
	me := rediskv.Instance{ID: s.instance}
	var failing []rediskv.LoadedModule
	for _, a := range upcoming {
		for _, ref := range a.Rules {
			m := rediskv.LoadedModule{RuleRef: ref}
			if slices.ContainsFunc(me.Modules, func(m rediskv.LoadedModule) bool { return m.RuleRef == ref }) {
				continue
			}
			if err := s.loadRule(ctx, a.Organization, ref); err != nil {
				s.log.Error("a rule cannot be loaded", "rule", ref.Rule.String(), "sha256", ref.SHA256, "activation", a.ID, "error", err)
				m.Error = ref.Rule.String() + " cannot be loaded"
				failing = append(failing, m)
			}
			me.Modules = append(me.Modules, m)
		}
	}
	s.following.mu.Lock()
	s.following.failing = failing
	s.following.mu.Unlock()
	return seen, s.store.Say(ctx, me)
}

// cannotLoad are rules of activations to come that this instance could not
// load when it last tried.
func (s *Server) cannotLoad() (rules []tollgate.Citation) {
	s.following.mu.Lock()
	defer s.following.mu.Unlock()
	for _, m := range s.following.failing {
		rules = append(rules, m.Rule)
	}
	return rules
}
