package main

import (
	"math"
	"sync/atomic"
	"time"
)

// clock is the marketplace's time. It goes forwards only.
type clock struct{ now atomic.Int64 } // Unix milliseconds

// Now is its time.
func (c *clock) Now() time.Time { return time.UnixMilli(c.now.Load()) }

// reach makes it at least at.
func (c *clock) reach(at time.Time) {
	for next := at.UnixMilli(); ; {
		now := c.now.Load()
		if now >= next || c.now.CompareAndSwap(now, next) {
			return
		}
	}
}

// moment is when payment n of count is created, from begin on within span: people sleep,
// so the nights have a third of what noon has.
func moment(begin time.Time, span time.Duration, n, count int) time.Time {
	const wave = 0.5
	days := span.Hours() / 24 * (float64(n) + 0.5) / float64(count)
	days += wave / (2 * math.Pi) * math.Sin(2*math.Pi*days)
	return begin.Add(time.Duration(days * float64(24*time.Hour)))
}
