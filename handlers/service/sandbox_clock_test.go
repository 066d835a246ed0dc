package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"tollgate"
)

// However often it is moved, the clock goes forwards only, and what is kept of
// it is what it says.
func TestSandboxClockEnds(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var kept int64
	c := &SandboxClock{
		Real: func() time.Time { return start },
		keep: func(_ context.Context, ahead int64) error { kept = ahead; return nil },
	}
	const by = 9600 * time.Hour
	before, refused := c.Now(), 0
	for range 300 {
		now, err := c.advance(t.Context(), by)
		if e, ok := errors.AsType[*tollgate.Error](err); ok && e.Code == tollgate.CodeParameterInvalid {
			now = c.Now()
			refused++
		} else if err != nil || now.Sub(before) != by {
			t.Fatalf("from %s to %s: %v", before, now, err)
		}
		before = now
	}
	if before.Year() != 2199 || refused == 0 {
		t.Errorf("it stops at %s, refused %d times", before, refused)
	}
	if start.Add(time.Duration(kept)*time.Millisecond) != before {
		t.Errorf("%d ms are kept", kept)
	}
}
