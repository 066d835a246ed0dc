package service

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/handlers"
	"tollgate/rediskv/store"
)

// SandboxClock is real time and how far the sandbox is ahead of it. All parts
// of a sandbox have the same one, so that they agree on what is due.
type SandboxClock struct {
	Real  func() time.Time
	ahead atomic.Int64 // milliseconds

	lock  sync.Mutex                                   // of those who move it
	keep  func(ctx context.Context, ahead int64) error // so that it does not go back with the next start
	Moved func(context.Context, time.Duration) error   // what has to come along; may be nil
}

// Now is the sandbox's time.
func (c *SandboxClock) Now() time.Time {
	return c.Real().Add(time.Duration(c.ahead.Load()) * time.Millisecond)
}

// Resume goes on where the sandbox of this Redis was when it stopped.
func (c *SandboxClock) Resume(ctx context.Context, store *store.Store) error {
	c.keep = store.KeepSandboxClock
	if c.Moved == nil {
		c.Moved = store.PassIdempotency
	}
	ahead, err := store.SandboxClock(ctx)
	if err != nil {
		return fmt.Errorf("sandbox clock: %w", err)
	}
	c.ahead.Store(ahead)
	return nil
}

// advance is a handlers.Config.Advance. Of two at once the second may be too far.
//
// A sandbox that dies between the two steps, or in the middle of the second,
// leaves idempotency keys that are remembered longer than 7 days of its clock.
// The next start does not do the rest: nothing tells a key that was shortened
// from one that was not, and shortened twice it would be forgotten early, and a
// repeated request carried out twice. Remembered too long, it only gets its answer.
func (c *SandboxClock) advance(ctx context.Context, by time.Duration) (time.Time, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := handlers.CheckSandboxClock("advance", c.Now().Add(by)); err != nil {
		return time.Time{}, err
	}
	ahead := c.ahead.Load() + by.Milliseconds()
	if err := c.keep(ctx, ahead); err != nil {
		return time.Time{}, err
	}
	c.ahead.Store(ahead)
	if c.Moved != nil {
		if err := c.Moved(ctx, by); err != nil {
			return time.Time{}, fmt.Errorf("the clock has moved, but not the expiry of idempotency keys: %w", err)
		}
	}
	return c.Now(), nil
}
