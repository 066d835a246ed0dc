package oauth

import (
	"strconv"
	"testing"
	"time"
)

// A proof is used once per key for as long as it is remembered.
func TestUsedProofs(t *testing.T) {
	var u usedProofs
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		key, jti string
		after    time.Duration
		first    bool
	}{
		{"a", "1", 0, true},
		{"a", "1", 0, false},
		{"a", "2", 0, true},
		{"b", "1", time.Minute, true},
		{"a", "1", time.Minute, false},
		{"a", "1", time.Minute + time.Second, true},
		{"b", "1", time.Minute + time.Second, false},
	} {
		if first, full := u.use(c.key, c.jti, at.Add(c.after), time.Minute); first != c.first || full {
			t.Errorf("%+v: first %t, full %t", c, first, full)
		}
	}
	if len(u.used) != len(u.oldest) || len(u.used) != 2 {
		t.Errorf("%d are remembered, %d in order", len(u.used), len(u.oldest))
	}
}

// Who can remember no more proofs takes none, until the oldest have expired.
func TestTooManyUsedProofs(t *testing.T) {
	var u usedProofs
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for n := range mostProofs {
		if first, _ := u.use("a", strconv.Itoa(n), at, time.Minute); !first {
			t.Fatal(n)
		}
	}
	if first, full := u.use("a", "more", at.Add(time.Minute), time.Minute); first || !full {
		t.Errorf("one more: first %t, full %t", first, full)
	}
	if first, full := u.use("a", "more", at.Add(time.Minute+1), time.Minute); !first || full || len(u.used) != 1 {
		t.Errorf("later: first %t, full %t, %d remembered", first, full, len(u.used))
	}
}
