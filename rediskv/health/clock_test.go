package health

import (
	"testing"
	"time"
)

// What a slow answer leaves open does not count, and a clock that is set between two
// heartbeats shows at once.
func TestReading(t *testing.T) {
	theirs := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := read(theirs.Add(9*time.Second), theirs.Add(13*time.Second), theirs)
	if r.ahead != 11*time.Second || r.off() < 8*time.Second || r.off() > 9*time.Second {
		t.Errorf("%+v, off %s", r, r.off())
	}
	if r := read(theirs.Add(-2*time.Second), theirs.Add(2*time.Second), theirs); r.off() != 0 {
		t.Errorf("a slow answer is taken for a wrong clock: %+v", r)
	}

	r = read(theirs, theirs, theirs)
	if now := r.since(theirs.Add(time.Hour), time.Hour); now.off() != 0 {
		t.Errorf("an hour later: %+v", now)
	}
	if now := r.since(theirs.Add(3*time.Hour), time.Hour); now.ahead != 2*time.Hour {
		t.Errorf("an hour later the clock was set, and it is %+v", now)
	}
}
