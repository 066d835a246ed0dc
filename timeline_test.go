package tollgate_test

import (
	"archive/zip"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
)

func TestCutoffOfADay(t *testing.T) {
	for _, c := range []struct{ zone, at, day, want string }{
		{"UTC", "17:00", "2026-11-21", "2026-11-21T17:00:00.000Z"},
		{"Europe/Berlin", "17:00", "2026-11-21", "2026-11-21T16:00:00.000Z"},
		{"Europe/Berlin", "17:00", "2026-07-21", "2026-07-21T15:00:00.000Z"},
		// 02:30 does not exist: the first instant after the gap is 03:00 summer time.
		{"Europe/Berlin", "02:30", "2026-03-29", "2026-03-29T01:00:00.000Z"},
		{"America/New_York", "02:30", "2026-03-08", "2026-03-08T07:00:00.000Z"},
		// 02:30 occurs twice: the first.
		{"Europe/Berlin", "02:30", "2026-10-25", "2026-10-25T00:30:00.000Z"},
		{"America/New_York", "01:30", "2026-11-01", "2026-11-01T05:30:00.000Z"},
		{"Europe/Berlin", "03:00", "2026-10-25", "2026-10-25T02:00:00.000Z"},
		// Midnight does not exist where summer begins at midnight.
		{"America/Sao_Paulo", "00:00", "2018-11-04", "2018-11-04T03:00:00.000Z"},
		{"Africa/Cairo", "00:00", "2026-04-24", "2026-04-23T22:00:00.000Z"},
		// Half an hour and quarters.
		{"Australia/Lord_Howe", "02:15", "2026-10-04", "2026-10-03T15:30:00.000Z"},
		{"Australia/Lord_Howe", "01:45", "2026-04-05", "2026-04-04T14:45:00.000Z"},
		{"Asia/Kathmandu", "00:00", "2026-11-21", "2026-11-20T18:15:00.000Z"},
		// Samoa went from 29 December 2011 to the 31st.
		{"Pacific/Apia", "17:00", "2011-12-29", "2011-12-30T03:00:00.000Z"},
		{"Pacific/Apia", "17:00", "2011-12-30", "2011-12-30T10:00:00.000Z"},
		{"Pacific/Apia", "17:00", "2011-12-31", "2011-12-31T03:00:00.000Z"},
		{"Pacific/Apia", "00:00", "2011-12-30", "2011-12-30T10:00:00.000Z"},
		{"Pacific/Apia", "00:00", "2011-12-31", "2011-12-30T10:00:00.000Z"},
		// Kwajalein left out 21 August 1993.
		{"Pacific/Kwajalein", "12:00", "1993-08-20", "1993-08-21T00:00:00.000Z"},
		{"Pacific/Kwajalein", "12:00", "1993-08-21", "1993-08-21T12:00:00.000Z"},
		{"Pacific/Kwajalein", "12:00", "1993-08-22", "1993-08-22T00:00:00.000Z"},
		// Beyond the database's own list the rule goes on.
		{"Europe/Berlin", "02:30", "2100-03-28", "2100-03-28T01:00:00.000Z"},
	} {
		line := timeline(t, daily(c.zone, c.at))
		if got := line.End(date(t, c.day)).String(); got != c.want {
			t.Errorf("%s %s of %s: %s, want %s", c.zone, c.at, c.day, got, c.want)
		}
	}
}

// A day without length holds nothing, and the instant of two cutoffs belongs
// to the day after both.
func TestSkippedDayIsEmpty(t *testing.T) {
	line := timeline(t, daily("Pacific/Apia", "00:00"))
	both := line.End(date(t, "2011-12-30"))
	if both != line.End(date(t, "2011-12-31")) {
		t.Fatal("30 and 31 December end apart")
	}
	if got := line.SalesDate(both - 1).String(); got != "2011-12-30" {
		t.Errorf("the last millisecond is of %s", got)
	}
	if got := line.SalesDate(both).String(); got != "2012-01-01" {
		t.Errorf("the instant itself is of %s", got)
	}
}

// Where a new version would end a day before the one before it, that day is
// empty: nothing goes back.
func TestVersionsTileTime(t *testing.T) {
	versions := []tollgate.CutoffVersion{
		{Cutoff: daily("America/New_York", "17:00")},
		{Cutoff: version(daily("Asia/Tokyo", "06:00"), 2), EffectiveDate: date(t, "2026-11-24")},
		{Cutoff: version(daily("Pacific/Honolulu", "23:59"), 5), EffectiveDate: date(t, "2026-11-26")},
	}
	for i := range versions { // paid after as many days as there were versions before
		versions[i].SettlementDelayDays = i
	}
	line, err := tollgate.NewTimeline(versions)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at, day string
		paid    tollgate.Date
	}{
		{"2026-11-22T22:00:00Z", "2026-11-23", 0},
		{"2026-11-23T21:59:59.999Z", "2026-11-23", 0}, // New York's 17:00
		{"2026-11-23T22:00:00Z", "2026-11-25", 1},     // 06:00 of the 24th in Tokyo was at 21:00Z already
		{"2026-11-24T20:59:59.999Z", "2026-11-25", 1},
		{"2026-11-24T21:00:00Z", "2026-11-26", 2}, // up to 23:59 in Honolulu, 61 hours
		{"2026-11-27T09:58:59.999Z", "2026-11-26", 2},
		{"2026-11-27T09:59:00Z", "2026-11-27", 2},
	} {
		i := instant(t, c.at)
		d := line.SalesDate(i)
		if paid := line.PayoutDate(d) - d; d.String() != c.day || paid != c.paid {
			t.Errorf("%s is of %v, paid after %d days, want %s after %d", c.at, d, paid, c.day, c.paid)
		}
	}
}

func TestBatchIsLaterThanTheClosedDay(t *testing.T) {
	line := timeline(t, tollgate.Cutoff{
		CutoffTime: "17:00", TimeZone: "Europe/Berlin", SettlementDelayDays: 2, Calendar: "target", Interval: "daily", Version: 1,
	})
	at := instant(t, "2026-11-20T10:00:00Z") // a Friday
	for _, c := range []struct{ closed, day, paid string }{
		{"", "2026-11-20", "2026-11-24"},
		{"2026-11-19", "2026-11-20", "2026-11-24"},
		{"2026-11-20", "2026-11-21", "2026-11-25"}, // Saturday rolls to Monday
		{"2026-11-25", "2026-11-26", "2026-11-30"},
	} {
		var closed tollgate.Date
		if c.closed != "" {
			closed = date(t, c.closed)
		}
		if got := line.SalesDay(at, closed); got.Date.String() != c.day || got.PayoutDate.String() != c.paid {
			t.Errorf("closed %s: %v paid %v, want %s paid %s", c.closed, got.Date, got.PayoutDate, c.day, c.paid)
		}
	}
}

func TestTimelineRefuses(t *testing.T) {
	good := tollgate.CutoffVersion{Cutoff: daily("UTC", "17:00")}
	at := func(d tollgate.Date, n int64) tollgate.CutoffVersion {
		return tollgate.CutoffVersion{Cutoff: version(good.Cutoff, n), EffectiveDate: d}
	}
	for name, versions := range map[string][]tollgate.CutoffVersion{
		"none":         nil,
		"same date":    {at(10, 1), at(10, 2)},
		"earlier date": {at(10, 1), at(9, 2)},
		"same version": {at(10, 1), at(11, 1)},
		"25:00":        {{Cutoff: daily("UTC", "25:00")}},
		"zone":         {{Cutoff: daily("Mars/Olympus", "12:00")}},
	} {
		if _, err := tollgate.NewTimeline(versions); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Every instant belongs to exactly one sales day, in every zone of the
// database and at every change of its clocks from 2000 to 2040: a cutoff is
// the very first instant at which the zone's clocks show the wall time or
// later, the days grow with time, and a day holds exactly what is between its
// cutoff and the one before.
func TestSalesDaysTileTime(t *testing.T) {
	zones := distinctZones(t)
	times := []string{"00:00", "02:30", "12:00", "23:30", "23:59"}
	var group sync.WaitGroup
	work := make(chan string, len(zones))
	for _, name := range zones {
		work <- name
	}
	close(work)
	for worker := range uint64(2) {
		random := rand.New(rand.NewPCG(4, worker))
		group.Go(func() {
			for name := range work {
				zone, err := tollgate.LoadZone(name)
				if err != nil {
					t.Error(err)
					return
				}
				changes := clockChanges(zone)
				for i, at := range times {
					judge := tiling{t: t, zone: zone, changes: changes, wall: at, line: timeline(t, daily(name, at))}
					for _, change := range changes {
						d := tollgate.DateOf(change.In(zone))
						for _, near := range []tollgate.Date{d - 1, d, d + 1} {
							judge.day(near)
						}
						judge.instant(tollgate.At(change))
						judge.instant(tollgate.At(change) - 1)
					}
					for range 20 {
						judge.instant(firstInstant + tollgate.Instant(random.Int64N(int64(lastInstant-firstInstant))))
					}
					if i == 0 && len(changes) == 0 {
						judge.day(tollgate.DateOf(firstInstant.Time()))
					}
				}
			}
		})
	}
	group.Wait()
}

var (
	firstInstant = tollgate.At(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	lastInstant  = tollgate.At(time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC))
)

type tiling struct {
	t       *testing.T
	zone    *time.Location
	changes []time.Time
	wall    string
	line    *tollgate.Timeline
}

// shows is what the zone's clocks show, in milliseconds of the civil calendar.
func (j *tiling) shows(i tollgate.Instant) int64 {
	_, offset := i.Time().In(j.zone).Zone()
	return int64(i) + int64(offset)*1000
}

const dayLength = 24 * 60 * 60 * 1000

func (j *tiling) day(d tollgate.Date) {
	at, err := time.Parse("15:04", j.wall)
	if err != nil {
		j.t.Fatal(err)
	}
	wall := int64(d)*dayLength + int64(at.Hour()*60+at.Minute())*60_000
	end := j.line.End(d)
	if j.shows(end) < wall {
		j.t.Errorf("%v %v %s: at its cutoff %v the clocks show less", j.zone, d, j.wall, end)
	}
	// Before it they never did: not just before it, and not before a change.
	if j.shows(end-1) >= wall {
		j.t.Errorf("%v %v %s: before its cutoff %v the clocks show it", j.zone, d, j.wall, end)
	}
	near, _ := slices.BinarySearchFunc(j.changes, end.Add(-72*time.Hour).Time(), time.Time.Compare)
	for _, change := range j.changes[near:] {
		at := tollgate.At(change)
		if at >= end {
			break
		}
		if j.shows(at-1) >= wall {
			j.t.Errorf("%v %v %s: before the change of %v, ahead of its cutoff %v, the clocks show it", j.zone, d, j.wall, at, end)
		}
	}
	// A later day ends later; but two may end together where a day is skipped.
	switch next := j.line.End(d + 1); {
	case next > end:
		if got := j.line.SalesDate(next - 1); got != d+1 {
			j.t.Errorf("%v %s: the last instant of %v is of %v", j.zone, j.wall, d+1, got)
		}
		if got := j.line.SalesDate(end); got != d+1 {
			j.t.Errorf("%v %s: the first instant of %v is of %v", j.zone, j.wall, d+1, got)
		}
	case next == end && j.shows(end)/dayLength == int64(d+1) && j.shows(end-1)/dayLength == int64(d-1):
	default:
		j.t.Errorf("%v %s: %v ends at %v and %v at %v", j.zone, j.wall, d, end, d+1, next)
	}
}

func (j *tiling) instant(i tollgate.Instant) {
	d := j.line.SalesDate(i)
	if i >= j.line.End(d) || i < j.line.End(d-1) {
		j.t.Errorf("%v %s: %v is said to be of %v, which is from %v to %v", j.zone, j.wall, i, d, j.line.End(d-1), j.line.End(d))
	}
}

// clockChanges finds by looking at the offset every few hours, not by asking
// for the changes, which is how the code under test finds its way.
func clockChanges(zone *time.Location) (changes []time.Time) {
	const step = 6 * 3600
	offset := func(unix int64) int {
		_, o := time.Unix(unix, 0).In(zone).Zone()
		return o
	}
	last := offset(int64(firstInstant) / 1000)
	for at := int64(firstInstant)/1000 + step; at < int64(lastInstant)/1000; at += step {
		now := offset(at)
		if now == last {
			continue
		}
		low, high := at-step, at // changed after low, not after high
		for high-low > 1 {
			if middle := (low + high) / 2; offset(middle) == last {
				low = middle
			} else {
				high = middle
			}
		}
		changes = append(changes, time.Unix(high, 0))
		last = now
	}
	return changes
}

// distinctZones names one zone for each content of the database.
func distinctZones(t testing.TB) (names []string) {
	t.Helper()
	archive, err := zip.OpenReader("scripts/zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	seen := map[string]bool{}
	for _, f := range archive.File {
		key := fmt.Sprint(f.CRC32, f.UncompressedSize64)
		if !strings.HasSuffix(f.Name, "/") && !seen[key] {
			seen[key] = true
			names = append(names, f.Name)
		}
	}
	return names
}

// TestCutoffChange: a change holds from the day after the open one on, or later;
// one that does not hold yet is replaced, and its number is not used again.
func TestCutoffChange(t *testing.T) {
	versions := []tollgate.CutoffVersion{{Cutoff: daily("UTC", "17:00")}}
	versions[0].Version = 1
	at := instant(t, "2026-11-21T12:00:00.000Z")
	closed := tollgate.NoDate
	for _, step := range []struct {
		name, at, closed, to, wanted string
		want                         string // versions, or a part of the refusal
	}{
		{"nothing", "", "", "17:00", "", ""},
		{"nothing, from a day that is over", "", "", "17:00", "2026-11-01", ""},
		{"too early", "", "", "18:00", "2026-11-21", "the sales day 2026-11-21 is open, so a change holds from 2026-11-22 at the earliest"},
		{"as early as can be", "", "", "18:00", "", "1 17:00, 2 18:00 2026-11-22"},
		{"the same again", "", "", "18:00", "", ""},
		{"the same, on the same day", "", "", "18:00", "2026-11-22", ""},
		{"later", "", "", "09:00", "2026-11-25", "1 17:00, 3 09:00 2026-11-25"},
		{"the same, on another day", "", "", "09:00", "2026-11-24", "1 17:00, 4 09:00 2026-11-24"},
		{"the same, too early", "", "", "09:00", "2026-11-21", "at the earliest"},
		{"too early after the cutoff", "2026-11-21T17:00:00.000Z", "", "10:00", "2026-11-22", "from 2026-11-23 at the earliest"},
		{"the day after the open one", "", "", "10:00", "", "1 17:00, 5 10:00 2026-11-23"},
		{"when it holds, a day for it is too late", "2026-11-26T12:00:00.000Z", "", "10:00", "2026-12-01", ""},
		{"beside one that holds", "", "", "11:00", "", "1 17:00, 5 10:00 2026-11-23, 6 11:00 2026-11-28"},
		{"behind a closed day", "", "2026-11-29", "12:00", "", "1 17:00, 5 10:00 2026-11-23, 6 11:00 2026-11-28, 7 12:00 2026-12-01"},
	} {
		if step.at != "" {
			at = instant(t, step.at)
		}
		if step.closed != "" {
			closed = date(t, step.closed)
		}
		line, err := tollgate.NewTimeline(versions)
		if err != nil {
			t.Fatal(err)
		}
		to, wanted := daily("UTC", step.to), tollgate.NoDate
		to.Version = versions[len(versions)-1].Version
		if step.wanted != "" {
			wanted = date(t, step.wanted)
		}
		next, err := line.Change(to, wanted, at, closed)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case next[len(next)-1].Version != to.Version:
			var list []string
			for _, v := range next {
				text := fmt.Sprint(v.Version, " ", v.CutoffTime)
				if v.EffectiveDate != tollgate.NoDate {
					text += " " + v.EffectiveDate.String()
				}
				list = append(list, text)
			}
			got, versions = strings.Join(list, ", "), next
		}
		if got != step.want && (err == nil || !strings.Contains(got, step.want)) {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
	line := timeline(t, daily("UTC", "17:00"))
	if _, err := line.Change(daily("Nowhere", "17:00"), tollgate.NoDate, at, tollgate.NoDate); err == nil {
		t.Error("a cutoff of no zone is taken")
	}
}

func daily(zone, at string) tollgate.Cutoff {
	return tollgate.Cutoff{CutoffTime: at, TimeZone: zone, Calendar: "none", Interval: "daily", Version: 1}
}

func version(c tollgate.Cutoff, n int64) tollgate.Cutoff {
	c.Version = n
	return c
}

func timeline(t testing.TB, c tollgate.Cutoff) *tollgate.Timeline {
	line, err := tollgate.NewTimeline([]tollgate.CutoffVersion{{Cutoff: c}})
	if err != nil {
		t.Error(err)
	}
	return line
}

func date(t testing.TB, s string) tollgate.Date {
	d, err := tollgate.ParseDate(s)
	if err != nil {
		t.Error(err)
	}
	return d
}

func instant(t testing.TB, s string) tollgate.Instant {
	i, err := tollgate.ParseInstant(s)
	if err != nil {
		t.Error(err)
	}
	return i
}

func BenchmarkBatch(b *testing.B) {
	line := timeline(b, tollgate.Cutoff{
		CutoffTime: "17:00", TimeZone: "Europe/Berlin", SettlementDelayDays: 2, Calendar: "target", Interval: "weekly", Version: 1,
	})
	at := instant(b, "2026-11-20T10:00:00Z")
	b.ReportAllocs()
	for b.Loop() {
		line.SalesDay(at, tollgate.NoDate)
	}
}
