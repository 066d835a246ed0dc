package rediskv_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// TestEventByID finds events whatever the service's clock says beside Redis'
// own: a sandbox's goes ahead, and one that is made anew is behind.
func TestEventByID(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"the clocks agree": 0, "a second behind": -time.Second, "a minute ahead": time.Minute,
		"a year behind": -365 * 24 * time.Hour, "ten years ahead": 3650 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			c := new(testkit.Clock)
			c.Set(time.Now().Add(ahead))
			f := newFixtureBy(t, redistest.URL(t), c)
			for range 40 {
				f.Clock.Advance(time.Millisecond)
				f.Pay(t, eur(100), tollgate.CaptureManual)
			}
			f.Clock.Advance(1000 * time.Hour)
			f.Pay(t, eur(100), tollgate.CaptureManual)
			all, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100})
			if err != nil || len(all) < 41 {
				t.Fatalf("%d events, %v", len(all), err)
			}
			for _, event := range all {
				var e struct {
					ID                string  `json:"id"`
					MerchantAccountID *string `json:"merchant_account_id"`
				}
				if err := json.Unmarshal(event, &e); err != nil {
					t.Fatal(err)
				}
				got, err := f.Event(t.Context(), f.Caller, e.ID, nil)
				if err != nil || !bytes.Equal(got, event) {
					t.Fatalf("%s: %s %v", e.ID, got, err)
				}
				if e.MerchantAccountID != nil {
					if _, err := f.Event(t.Context(), f.Caller, e.ID, []string{"ma_another"}); code(err) != string(tollgate.CodeNotFound) {
						t.Errorf("%s to a grant of another account: %v", e.ID, err)
					}
				}
			}
			for _, id := range []string{f.NewID(tollgate.PrefixEvent), tollgate.FirstID(tollgate.PrefixEvent, 1), "evt_x", "evt_" + strings.Repeat("0", 26), "pay_" + strings.Repeat("0", 26)} {
				if _, err := f.Event(t.Context(), f.Caller, id, nil); code(err) != string(tollgate.CodeNotFound) {
					t.Errorf("%s, which there is not: %v", id, err)
				}
			}
		})
	}
}

// TestEventOfTheSameMillisecond: an event is found behind one that was committed
// in the same millisecond, and made long before by a clock that was behind.
func TestEventOfTheSameMillisecond(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.Clock.Advance(1000 * time.Hour)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	raw, events := f.raw(t)
	all, err := raw.XRange(t.Context(), events, "-", "+").Result()
	if err != nil || len(all) < 3 {
		t.Fatal(len(all), err)
	}
	together := time.Now().Add(time.Hour).UnixMilli()
	for i, e := range all[len(all)-2:] {
		if err := raw.XDel(t.Context(), events, e.ID).Err(); err != nil {
			t.Fatal(err)
		}
		if err := raw.XAdd(t.Context(), &redis.XAddArgs{Stream: events, ID: fmt.Sprintf("%d-%d", together, i), Values: e.Values}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range all {
		id, _ := e.Values["i"].(string)
		if got, err := f.Event(t.Context(), f.Caller, id, nil); err != nil || string(got) != e.Values["b"] {
			t.Errorf("%s: %s %v", id, got, err)
		}
	}
}

// TestEventAmongMany finds an event behind more of the same second than one
// batch has.
func TestEventAmongMany(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	raw, events := f.raw(t)
	pipe := raw.Pipeline()
	for range 2500 {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: events, Values: []any{"i", f.NewID(tollgate.PrefixEvent), "t", "ping", "a", "", "b", "{}"}})
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Pay(t, eur(100), tollgate.CaptureManual)
	last, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 1, Descending: true})
	if err != nil || len(last) != 1 {
		t.Fatalf("%d events, %v", len(last), err)
	}
	var e struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(last[0], &e); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Event(t.Context(), f.Caller, e.ID, nil); err != nil || !bytes.Equal(got, last[0]) {
		t.Errorf("%s: %s %v", e.ID, got, err)
	}
}
