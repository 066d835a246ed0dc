package main

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// clock is the marketplace's time: real time, and how far it is off, in whole seconds. It
// goes forwards only, and at the end it is real time.
type clock struct {
	mu    sync.Mutex
	off   atomic.Int64                  // seconds
	moved func(off time.Duration) error // has Redis' clock be off as much; nil: it needs nobody to say so
}

// Now is its time.
func (c *clock) Now() time.Time { return time.Now().Add(c.offset()) }

func (c *clock) offset() time.Duration { return time.Duration(c.off.Load()) * time.Second }

// move has it be off by so much, if that is forwards.
func (c *clock) move(off time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	seconds := int64(math.Ceil(off.Seconds()))
	if seconds <= c.off.Load() {
		return nil
	}
	return c.set(seconds)
}

// begin has it be off by so much.
func (c *clock) begin(off time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set(int64(off / time.Second))
}

func (c *clock) set(seconds int64) error {
	if c.moved != nil {
		if err := c.moved(time.Duration(seconds) * time.Second); err != nil {
			return fmt.Errorf("redis' clock: %w", err)
		}
	}
	c.off.Store(seconds)
	return nil
}

// moment is how far the clock is off, of span before, when payment n of count is created:
// people sleep, so the nights have a third of what noon has. Days begin at the first.
func moment(span time.Duration, n, count int) time.Duration {
	const wave = 0.5
	days := span.Hours() / 24 * (float64(n) + 0.5) / float64(count)
	days += wave / (2 * math.Pi) * math.Sin(2*math.Pi*days)
	return time.Duration(days*float64(24*time.Hour)) - span
}
