package health

import (
	"context"
	"sync"
	"time"
)

// lookEvery is how often a process looks at what Redis says of itself.
const lookEvery = time.Minute

// FollowHealth writes a heartbeat every second and looks for losses then. Every minute and
// after each reconnect it looks at what every master says of itself, and at the layout.
// It returns when ctx ends. Of several who follow on one Store one does it.
func (s *Store) FollowHealth(ctx context.Context) {
	if s.db.IsOffline() {
		return
	}
	select {
	case <-ctx.Done():
		return
	case s.own <- struct{}{}:
	}
	defer func() { <-s.own }()
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() { s.look(ctx) })
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		if s.Beat(ctx) == Written {
			s.LookForLoss(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look looks at Redis at once and then again and again. Many connections can be new at
// once; a second later all have been.
func (s *Store) look(ctx context.Context) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		if servers, err := s.Servers(ctx); err == nil {
			s.judge(servers)
		}
		_ = s.db.ReadLayout(ctx) // in a minute again
		select {
		case <-ctx.Done():
			return
		case <-time.After(beatEvery):
		}
		select {
		case <-ctx.Done():
			return
		case <-s.reconnected:
		case <-every.C:
		}
	}
}
