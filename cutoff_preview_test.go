package tollgate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tollgate"
)

// The preview against a second, slow computation that shares no code with it:
// it looks at the clocks minute by minute, and counts days with the standard
// library and the lists of closing days.
func TestPreviewIsWhatHappens(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 2026))
	moved, warnings := 0, map[string]int{}
	for n := range 1000 {
		c := randomCase(random)
		got := preview(t, c)
		moved += int(got.Summary.CapturesMoved)
		for _, w := range got.Warnings {
			warnings[w.Code]++
		}
		want := c.slowly(t)
		if fmt.Sprint(got.Moves) != fmt.Sprint(want.Moves) || fmt.Sprint(got.Payouts) != fmt.Sprint(want.Payouts) ||
			fmt.Sprint(got.Summary) != fmt.Sprint(want.Summary) {
			t.Fatalf("case %d: %+v\n got %+v\n     %v\n     %v\nwant %+v\n     %v\n     %v",
				n, c.CutoffQuestion, got.Summary, got.Moves, got.Payouts, want.Summary, want.Moves, want.Payouts)
		}
		consistent(t, got)
	}
	t.Logf("%d captures moved; warnings: %v", moved, warnings)
	if moved < 2000 || len(warnings) < 6 {
		t.Errorf("the cases show too little: %d captures moved; warnings: %v", moved, warnings)
	}
}

// consistent holds what must be true of every preview: a delta is what moves
// to its date less what moves away.
func consistent(t *testing.T, p *tollgate.CutoffPreview) {
	t.Helper()
	type key struct {
		date     tollgate.Date
		currency tollgate.Currency
	}
	delta, total := map[key]int64{}, map[tollgate.Currency]int64{}
	count := int64(0)
	for _, m := range p.Moves {
		delta[key{m.ToPayoutDate, m.Currency}] += m.Amount.Minor
		delta[key{m.FromPayoutDate, m.Currency}] -= m.Amount.Minor
		total[m.Currency] += m.Amount.Minor
		count += m.Count
	}
	for _, row := range p.Payouts {
		k := key{row.PayoutDate, row.Currency}
		if row.Delta.Minor != delta[k] || row.AmountCurrent.Minor+row.Delta.Minor != row.AmountProposed.Minor {
			t.Errorf("%v %s: delta %v, the moves make %d", row.PayoutDate, row.Currency, row.Delta, delta[k])
		}
		delete(delta, k)
	}
	for k, d := range delta {
		if d != 0 {
			t.Errorf("%v has no payout", k)
		}
	}
	for _, a := range p.Summary.AmountsMoved {
		if a.Amount.Minor != total[a.Currency] {
			t.Errorf("%v moved, the moves make %d", a, total[a.Currency])
		}
	}
	if count != p.Summary.CapturesMoved || len(total) != len(p.Summary.AmountsMoved) {
		t.Errorf("%d captures moved, the moves have %d", p.Summary.CapturesMoved, count)
	}
}

type previewCase struct {
	tollgate.CutoffQuestion
	versions []tollgate.CutoffVersion
	captures []tollgate.CapturedAmount
}

func preview(t testing.TB, c previewCase) *tollgate.CutoffPreview {
	t.Helper()
	p, err := tollgate.NewCutoffPreviewer(c.CutoffQuestion)
	if err != nil {
		t.Fatalf("%+v: %v", c.CutoffQuestion, err)
	}
	for _, capture := range c.captures {
		if err := p.Add(capture); err != nil {
			t.Fatal(err)
		}
	}
	return p.Preview()
}

func randomCase(random *rand.Rand) previewCase {
	one := func(list ...string) string { return list[random.IntN(len(list))] }
	cutoff := func(n int64) tollgate.Cutoff {
		return tollgate.Cutoff{
			CutoffTime:          one("00:00", "01:30", "02:30", "03:00", "12:00", "17:00", "23:59", fmt.Sprintf("%02d:%02d", random.IntN(24), random.IntN(60))),
			TimeZone:            one("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati", "Pacific/Honolulu", "Asia/Tokyo", "Africa/Cairo", "Asia/Kathmandu"),
			SettlementDelayDays: []int{0, 1, 2, 3, 20}[random.IntN(5)],
			Calendar:            one("none", "target", "us_fed", "uk"),
			Interval:            one("daily", "daily", "weekly", "monthly"),
			Version:             n,
		}
	}
	// Around changes of the clocks and holidays, in the years of all lists.
	starts := []string{"2024-03-08", "2024-10-31", "2025-03-28", "2025-04-16", "2025-10-24", "2025-12-20", "2024-02-27"}
	start, err := time.Parse(time.DateOnly, one(starts...))
	if err != nil {
		panic(err)
	}
	from := tollgate.At(start).Add(time.Duration(random.IntN(48*60)) * time.Minute)
	to := from.Add(time.Duration(1+random.IntN(5*24*60)) * time.Minute)
	c := previewCase{versions: []tollgate.CutoffVersion{{Cutoff: cutoff(1)}}}
	if random.IntN(3) == 0 {
		v := tollgate.CutoffVersion{Cutoff: cutoff(4), EffectiveDate: tollgate.DateOf(from.Time()) + tollgate.Date(random.IntN(8)) - 2}
		c.versions = append(c.versions, v)
	}
	line, err := tollgate.NewTimeline(c.versions)
	if err != nil {
		panic(err)
	}
	newest := c.versions[len(c.versions)-1].Cutoff
	proposed := cutoff(0)
	if random.IntN(2) == 0 { // a small change
		proposed = newest
		proposed.CutoffTime = one("17:00", "18:00", newest.CutoffTime)
	}
	c.CutoffQuestion = tollgate.CutoffQuestion{
		MerchantAccountID: "ma_1", Current: line, Proposed: proposed,
		Window: tollgate.PreviewWindow{From: from, To: to}, Now: to.Add(time.Duration(random.IntN(48)) * time.Hour),
	}
	if random.IntN(2) == 0 {
		c.EffectiveDate = line.SalesDate(from) + tollgate.Date(random.IntN(7)) - 2
	}
	for range random.IntN(25) {
		at := from + tollgate.Instant(random.Int64N(int64(to-from)))
		if random.IntN(3) == 0 { // at a cutoff, or just before
			at = min(max(line.End(line.SalesDate(at))-tollgate.Instant(random.IntN(2)), from), to-1)
		}
		capture := tollgate.CapturedAmount{
			At: at, Currency: tollgate.Currency(one("EUR", "JPY")), Net: random.Int64N(1_000_000) - 100,
		}
		if random.IntN(4) > 0 {
			capture.SalesDay = line.SalesDay(at, tollgate.NoDate)
		}
		if random.IntN(10) == 0 { // too late for its day
			capture.SalesDay = line.SalesDay(at, line.SalesDate(at))
		}
		c.captures = append(c.captures, capture)
	}
	return c
}

func TestPreviewRefuses(t *testing.T) {
	good := tollgate.CutoffQuestion{
		MerchantAccountID: "ma_1", Current: timeline(t, daily("UTC", "17:00")), Proposed: daily("UTC", "18:00"),
		Now: instant(t, "2026-11-21T12:00:00Z"),
	}
	for name, c := range map[string]struct {
		spoil func(*tollgate.CutoffQuestion)
		param string
	}{
		"zone":         {func(q *tollgate.CutoffQuestion) { q.Proposed.TimeZone = "Mars/Olympus" }, "proposed.time_zone"},
		"local":        {func(q *tollgate.CutoffQuestion) { q.Proposed.TimeZone = "Local" }, "proposed.time_zone"},
		"25:00":        {func(q *tollgate.CutoffQuestion) { q.Proposed.CutoffTime = "25:00" }, "proposed.cutoff_time"},
		"24:00":        {func(q *tollgate.CutoffQuestion) { q.Proposed.CutoffTime = "24:00" }, "proposed.cutoff_time"},
		"5 pm":         {func(q *tollgate.CutoffQuestion) { q.Proposed.CutoffTime = "5 pm" }, "proposed.cutoff_time"},
		"delay":        {func(q *tollgate.CutoffQuestion) { q.Proposed.SettlementDelayDays = 21 }, "proposed.settlement_delay_days"},
		"before":       {func(q *tollgate.CutoffQuestion) { q.Proposed.SettlementDelayDays = -1 }, "proposed.settlement_delay_days"},
		"calendar":     {func(q *tollgate.CutoffQuestion) { q.Proposed.Calendar = "mayan" }, "proposed.calendar"},
		"interval":     {func(q *tollgate.CutoffQuestion) { q.Proposed.Interval = "hourly" }, "proposed.interval"},
		"backwards":    {func(q *tollgate.CutoffQuestion) { q.Window = tollgate.PreviewWindow{From: q.Now, To: q.Now - 1} }, "window"},
		"empty":        {func(q *tollgate.CutoffQuestion) { q.Window = tollgate.PreviewWindow{From: q.Now, To: q.Now} }, "window"},
		"begins now":   {func(q *tollgate.CutoffQuestion) { q.Window.From = q.Now }, "window"},
		"years":        {func(q *tollgate.CutoffQuestion) { q.Window.From = q.Now.Add(-2 * 365 * 24 * time.Hour) }, "window"},
		"over 92 days": {func(q *tollgate.CutoffQuestion) { q.Window.From = q.Now.Add(-92*24*time.Hour) - 1 }, "window"},
	} {
		q := good
		c.spoil(&q)
		_, err := tollgate.NewCutoffPreviewer(q)
		if e, ok := errors.AsType[*tollgate.Error](err); !ok || e.Code != tollgate.CodeCutoffInvalid || e.Param != c.param {
			t.Errorf("%s: %v", name, err)
		}
	}
	several := good
	several.Proposed = tollgate.Cutoff{CutoffTime: "25:00", TimeZone: "Mars"}
	_, err := tollgate.NewCutoffPreviewer(several)
	if e, ok := errors.AsType[*tollgate.Error](err); !ok || len(e.Details) != 4 {
		t.Errorf("several faults: %v", err)
	}
	good.Window.From = good.Now.Add(-92 * 24 * time.Hour)
	for net, want := range map[int64]int{tollgate.MaxMinor: 2305, -tollgate.MaxMinor: 2305, 1: 200_000} {
		p, err := tollgate.NewCutoffPreviewer(good)
		if err != nil {
			t.Fatal(err)
		}
		added := 0
		for err == nil {
			err = p.Add(tollgate.CapturedAmount{At: good.Now - 1, Currency: "EUR", Net: net})
			added++
		}
		if e, ok := errors.AsType[*tollgate.Error](err); !ok || e.Code != tollgate.CodeCutoffInvalid || e.Param != "window" || added != want+1 {
			t.Errorf("%d captures of %d: %v", added, net, err)
		}
	}
}

func TestPreviewWarns(t *testing.T) {
	versions := []tollgate.CutoffVersion{
		{Cutoff: daily("Europe/Berlin", "17:00")},
		{Cutoff: version(daily("Europe/Berlin", "18:00"), 2), EffectiveDate: date(t, "2026-04-05")},
	}
	line, err := tollgate.NewTimeline(versions)
	if err != nil {
		t.Fatal(err)
	}
	q := tollgate.CutoffQuestion{
		MerchantAccountID: "ma_1", Current: line, Proposed: daily("Europe/Berlin", "02:30"),
		Window: tollgate.PreviewWindow{From: instant(t, "2026-03-27T16:00:00Z"), To: instant(t, "2026-03-30T15:00:00Z")},
		Now:    instant(t, "2026-04-02T12:00:00Z"),
	}
	lines := func(q tollgate.CutoffQuestion, captures ...tollgate.CapturedAmount) string {
		var text []string
		for _, w := range preview(t, previewCase{CutoffQuestion: q, captures: captures}).Warnings {
			text = append(text, w.Code+": "+w.Message)
		}
		return strings.Join(text, "\n")
	}
	want := `no_captures: The account has no captures in the window.
effective_date_past: Sales day 2026-04-02 is open and earlier ones are over: a change can take effect on 2026-04-03 at the earliest.
version_pending: Version 2 of the cutoff is not in force yet; a change that is made now takes its place.
cutoff_time_skipped: Clocks in Europe/Berlin are put forward over 02:30 on 2026-03-29: the sales day ends right after the gap.`
	if got := lines(q); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Captures just before the end: by the proposed cutoff they are paid on the
	// 31st, with what comes after the window.
	last := tollgate.CapturedAmount{At: q.Window.To - 1, Currency: "EUR", Net: 5}
	if got := lines(q, last); !strings.HasSuffix(got, "\nwindow_partial: Payouts of 2026-03-31 also take in captures from outside the window, which are not counted.") {
		t.Errorf("got\n%s", got)
	}
	fee := tollgate.CapturedAmount{At: q.Window.From, Currency: "EUR", Net: -5}
	q.Proposed, q.EffectiveDate = version(versions[1].Cutoff, 7), date(t, "2026-04-10")
	want = `no_change: The proposed cutoff is the account's newest one.
effective_date_late: The last sales day of the window is 2026-03-30: no capture in it is concerned.
version_pending: Version 2 of the cutoff is not in force yet; a change that is made now takes its place.
payout_negative: Fees exceed captures on 2026-03-28: no payout would be made, and the amount goes into the next one.`
	if got := lines(q, fee); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPreviewsCurrentVersion: what the proposed cutoff is compared with is what
// would hold on its day without it, as the amounts are.
func TestPreviewsCurrentVersion(t *testing.T) {
	line, err := tollgate.NewTimeline([]tollgate.CutoffVersion{
		{Cutoff: daily("UTC", "17:00")},
		{Cutoff: version(daily("UTC", "18:00"), 2), EffectiveDate: date(t, "2026-04-05")},
		{Cutoff: version(daily("UTC", "19:00"), 3), EffectiveDate: date(t, "2026-04-09")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for effective, want := range map[string]int64{"2026-04-04": 1, "2026-04-05": 2, "2026-04-08": 2, "2026-04-09": 3, "2026-05-01": 3} {
		p := preview(t, previewCase{CutoffQuestion: tollgate.CutoffQuestion{
			Current: line, Proposed: daily("UTC", "20:00"), EffectiveDate: date(t, effective), Now: instant(t, "2026-04-07T12:00:00Z"),
		}})
		if p.Current.Version != want || p.Proposed.Version != 4 {
			t.Errorf("on %s version %d is compared with version %d, want version %d", effective, p.Proposed.Version, p.Current.Version, want)
		}
	}
}

func TestPreviewChoosesAWindow(t *testing.T) {
	q := tollgate.CutoffQuestion{
		Current: timeline(t, daily("UTC", "17:00")), Proposed: daily("UTC", "18:00"), Now: instant(t, "2026-11-21T12:00:00Z"),
	}
	p := preview(t, previewCase{CutoffQuestion: q})
	if p.Window.From.String() != "2026-10-22T12:00:00.000Z" || p.Window.To != q.Now || p.EffectiveDate.String() != "2026-10-22" {
		t.Errorf("window %v, effective %v", p.Window, p.EffectiveDate)
	}
	if p.Proposed.Version != 2 || p.Current.Version != 1 {
		t.Errorf("versions %d and %d", p.Current.Version, p.Proposed.Version)
	}
}

func BenchmarkPreview(b *testing.B) {
	q := tollgate.CutoffQuestion{
		Current: timeline(b, daily("Europe/Berlin", "17:00")), Proposed: daily("Europe/Berlin", "18:00"), Now: instant(b, "2026-11-21T12:00:00Z"),
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := tollgate.NewCutoffPreviewer(q)
		if err != nil {
			b.Fatal(err)
		}
		const captures = 100_000
		for n := range tollgate.Instant(captures) {
			at := p.Window().From + n*(p.Window().To-p.Window().From)/captures
			if err := p.Add(tollgate.CapturedAmount{At: at, Currency: "EUR", Net: 1000}); err != nil {
				b.Fatal(err)
			}
		}
		p.Preview()
	}
}
