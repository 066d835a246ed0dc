package tollgate_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
)

func TestIDsSortByTime(t *testing.T) {
	entropy := bytes.NewReader(bytes.Repeat([]byte{0xff, 7}, 100))
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	var ids []string
	for i := range 10 {
		ids = append(ids, tollgate.NewID(tollgate.PrefixPayment, start.Add(time.Duration(i)*time.Millisecond), entropy))
	}
	if !slices.IsSorted(ids) {
		t.Error(ids)
	}
	shape := regexp.MustCompile(`^pay_[0-9a-z]{26}$`)
	for i, id := range ids {
		at, ok := tollgate.IDTime(id)
		if !shape.MatchString(id) || !tollgate.ValidID(id) || !ok || !at.Equal(start.Add(time.Duration(i)*time.Millisecond)) {
			t.Errorf("%s: %v %v", id, at, ok)
		}
	}
	if got := tollgate.TicketOf("pay_1"); got != "tkt_1" {
		t.Error(got)
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "pay_01": true, strings.Repeat("a", 64): true, "": false, strings.Repeat("a", 65): false,
		"a-b": false, "a/b": false, "a\x00": false, "..": false, "é": false, "a b": false, "{p00}": false, "a:b": false,
	} {
		if tollgate.ValidID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

func TestCitations(t *testing.T) {
	for _, s := range []string{"rule:card_fee@v1", "rule:a@v999999", "rule:a_1@v20"} {
		c, err := tollgate.ParseCitation(s)
		if err != nil || c.String() != s {
			t.Errorf("%s: %v %v", s, c, err)
		}
	}
	for _, s := range []string{
		"", "rule:", "rule:a", "rule:a@v", "rule:a@v0", "rule:a@v01", "rule:a@v1000000", "rule:A@v1", "rule:1@v1", "rule:a@1", "a@v1",
		"rule:a@v1 ", "rule:a@v+1", "rule:a@v-1", "rule:a/../b@v1", "rule:" + strings.Repeat("a", 49) + "@v1", "rule:a@v1@v2",
	} {
		if c, err := tollgate.ParseCitation(s); err == nil {
			t.Errorf("%q is read as %v", s, c)
		}
	}
}

func TestInstants(t *testing.T) {
	at, err := tollgate.ParseInstant("2026-11-21T18:16:28.1234567+02:00")
	if err != nil || at.String() != "2026-11-21T16:16:28.123Z" {
		t.Errorf("%s %v", at, err)
	}
	for _, s := range []string{"", "2026-11-21", "2026-11-21T18:16:28", "1969-12-31T23:59:59Z", "10000-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "now"} {
		if at, err := tollgate.ParseInstant(s); err == nil {
			t.Errorf("%q is read as %s", s, at)
		}
	}
	var zero tollgate.Instant
	if text, _ := zero.MarshalJSON(); string(text) != "null" {
		t.Errorf("no value prints as %s", text)
	}
}

func FuzzCitation(f *testing.F) {
	f.Add("rule:card_fee@v1")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := tollgate.ParseCitation(s); err == nil && c.String() != s {
			t.Errorf("%q is read as %s", s, c)
		}
	})
}

func FuzzCurrency(f *testing.F) {
	f.Add("EUR")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := tollgate.ParseCurrency(s); err == nil && !slices.Contains(tollgate.Currencies(), c) {
			t.Errorf("%q is accepted", s)
		}
	})
}

func FuzzID(f *testing.F) {
	f.Add("pay_01kb3d7m8ycw8f2v7q5n9t4r6x")
	f.Fuzz(func(t *testing.T, s string) {
		tollgate.IDTime(s)
		if tollgate.ValidID(s) != regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`).MatchString(s) || (tollgate.ValidID(s) && strings.HasSuffix(s, "\n")) {
			t.Errorf("%q", s)
		}
	})
}

// What belongs to a payment has a time of its own, and says whose it is and its number.
func TestNumberedIDs(t *testing.T) {
	payment := tollgate.NewID(tollgate.PrefixPayment, time.UnixMilli(1), bytes.NewReader([]byte("0123456789")))
	seen := map[string]bool{}
	all := 2 + 2*(tollgate.MaxCaptures+tollgate.MaxRefunds) // each with its fee, the authorization, a release
	for number := range all {
		id := tollgate.NumberedID(tollgate.PrefixCapture, 1_790_000_000_123, payment, number)
		of, last, ok := tollgate.NumberIn(id)
		own, _, _ := tollgate.NumberIn(payment)
		if at, fine := tollgate.IDTime(id); !ok || !fine || of != own || at.UnixMilli() != 1_790_000_000_123 || seen[last] || !strings.HasPrefix(id, tollgate.PrefixCapture) {
			t.Errorf("%s is number %s of %s, and number %d of %s", id, last, of, number, payment)
		}
		if seen[last] = true; (number == 0) != (last == tollgate.FirstNumber) || tollgate.PartID(tollgate.PrefixCapture, 1_790_000_000_123, of, last) != id {
			t.Errorf("number %d is %s", number, last)
		}
	}
	for _, id := range []string{"", "pay_1", "cap", payment + "0"} {
		if _, _, ok := tollgate.NumberIn(id); ok {
			t.Errorf("%q has a number", id)
		}
	}
}
