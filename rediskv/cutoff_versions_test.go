package rediskv_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// change applies another cutoff time to the first account, from a date on or
// as early as can be.
func (f *fixture) changeCutoff(t testing.TB, cutoffTime string, from tollgate.Date) error {
	t.Helper()
	f.Config.MerchantAccounts[0].Cutoff.CutoffTime = cutoffTime
	f.Config.Effective = map[string]tollgate.Date{f.Config.MerchantAccounts[0].ID: from}
	_, err := f.ApplyConfig(t.Context(), f.Config, false)
	f.Refresh(f.Caller.Organization)
	return err
}

func (f *fixture) versions(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, v := range f.MerchantAccount(t).Cutoffs.Versions() {
		fmt.Fprintf(&b, "%d %s %s; ", v.Version, v.CutoffTime, v.EffectiveDate)
	}
	return b.String()
}

// A change of a cutoff is a version that holds from the day after the open one
// on, or later; one that does not hold yet is replaced.
func TestCutoffVersions(t *testing.T) {
	f := newFixture(t) // Saturday 2026-11-21, 13:00 in Berlin; the cutoff is 17:00
	day := func(text string) tollgate.Date {
		d, err := tollgate.ParseDate(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := "1 17:00 1970-01-01; "
	for _, step := range []struct {
		advance    time.Duration
		cutoffTime string
		from, want string
		refused    bool
	}{
		{0, "17:00", "", first, false},
		{0, "17:00", "2026-11-01", first, false}, // nothing changes, so nothing is too early
		{0, "18:00", "2026-11-21", first, true},
		{0, "18:00", "", first + "2 18:00 2026-11-22; ", false},
		{0, "18:00", "", first + "2 18:00 2026-11-22; ", false},
		{0, "09:00", "2026-11-25", first + "3 09:00 2026-11-25; ", false},
		{0, "09:00", "2026-11-24", first + "4 09:00 2026-11-24; ", false},
		{0, "09:00", "2026-11-21", first + "4 09:00 2026-11-24; ", true},
		{4 * time.Hour, "10:00", "2026-11-22", first + "4 09:00 2026-11-24; ", true}, // 2026-11-22 is open now
		{0, "10:00", "", first + "5 10:00 2026-11-23; ", false},
		{5 * 24 * time.Hour, "10:00", "2026-11-23", first + "5 10:00 2026-11-23; ", false},
		{0, "11:00", "", first + "5 10:00 2026-11-23; 6 11:00 2026-11-28; ", false},
	} {
		f.Clock.Advance(step.advance)
		from := tollgate.NoDate
		if step.from != "" {
			from = day(step.from)
		}
		err := f.changeCutoff(t, step.cutoffTime, from)
		if step.refused != (err != nil) || (err != nil && !strings.Contains(err.Error(), "at the earliest")) {
			t.Errorf("%+v: %v", step, err)
		}
		if got := f.versions(t); got != step.want {
			t.Errorf("%+v: versions %s", step, got)
		}
	}
	a := f.MerchantAccount(t)
	if a.Cutoff.Version != 6 || a.Cutoff.CutoffTime != "11:00" {
		t.Errorf("the account shows %+v", a.Cutoff)
	}
	var dates []string
	for _, e := range f.audit(t).events {
		var data struct {
			EffectiveDate string          `json:"effective_date"`
			Cutoff        tollgate.Cutoff `json:"cutoff"`
		}
		if e.Type != tollgate.CutoffUpdated {
			continue
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		dates = append(dates, fmt.Sprint(data.Cutoff.Version, " ", data.EffectiveDate))
	}
	if got := strings.Join(dates, ", "); got != "2 2026-11-22, 3 2026-11-25, 4 2026-11-24, 5 2026-11-23, 6 2026-11-28" {
		t.Errorf("cutoff.updated: %s", got)
	}
}

// An account from before versions were kept has the one it shows, and the same
// file does not change it.
func TestCutoffWithoutVersions(t *testing.T) {
	f := newFixture(t)
	c, events := f.raw(t)
	key := strings.TrimSuffix(events, "events") + f.Config.MerchantAccounts[0].ID
	if err := c.HDel(t.Context(), key, "cutoffs", rediskv.EnvelopeField).Err(); err != nil {
		t.Fatal(err)
	}
	if changes, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil || len(changes) > 0 {
		t.Errorf("the same file: %v %v", changes, err)
	}
	f.Refresh(f.Caller.Organization)
	if got := f.versions(t); got != "1 17:00 1970-01-01; " {
		t.Errorf("versions %s", got)
	}
	if err := f.changeCutoff(t, "18:00", tollgate.NoDate); err != nil {
		t.Fatal(err)
	}
	if got := f.versions(t); got != "1 17:00 1970-01-01; 2 18:00 2026-11-22; " {
		t.Errorf("changed: %s", got)
	}
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.days(7)
	f.mustSettle(t)
	if n := len(f.payouts(t)); n != 1 {
		t.Errorf("%d payouts", n)
	}
}

// A change that moves a payout date's cutoff earlier is followed at once.
func TestPayoutFollowsAChangedCutoff(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic) // due on 2026-11-25, 16:00 UTC
	if err := f.changeCutoff(t, "09:00", tollgate.NoDate); err != nil {
		t.Fatal(err)
	}
	f.Clock.Set(time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC).Add(-time.Millisecond))
	f.mustSettle(t)
	if n := len(f.payouts(t)); n != 0 {
		t.Fatalf("%d payouts before 09:00 in Berlin", n)
	}
	f.Clock.Advance(time.Millisecond)
	f.mustSettle(t)
	if n := len(f.payouts(t)); n != 1 {
		t.Fatalf("%d payouts at 09:00 in Berlin", n)
	}
}
