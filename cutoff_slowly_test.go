package tollgate_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
)

// slowly is the same preview, computed another way.
func (c *previewCase) slowly(t *testing.T) *tollgate.CutoffPreview {
	effective := c.EffectiveDate
	before := slowTimeline{t, c.versions, map[tollgate.Date]tollgate.Instant{}}
	if effective == tollgate.NoDate {
		effective = before.day(c.Window.From)
	}
	after := slowTimeline{t, nil, map[tollgate.Date]tollgate.Instant{}}
	for i, v := range c.versions {
		if i == 0 || v.EffectiveDate < effective {
			after.versions = append(after.versions, v)
		}
	}
	after.versions = append(after.versions, tollgate.CutoffVersion{Cutoff: c.Proposed, EffectiveDate: effective})
	p := &tollgate.CutoffPreview{
		Summary: tollgate.PreviewSummary{AmountsMoved: []tollgate.PreviewAmount{}},
	}
	for _, capture := range c.captures {
		dayBefore, dayAfter := before.day(capture.At), after.day(capture.At)
		from := tollgate.SalesDay{Date: dayBefore, PayoutDate: before.payout(dayBefore)}
		if capture.SalesDay.Date != tollgate.NoDate {
			from = capture.SalesDay
		}
		if dayAfter == dayBefore {
			dayAfter = from.Date
		}
		to := tollgate.SalesDay{Date: dayAfter, PayoutDate: after.payout(dayAfter)}
		p.Summary.Captures++
		add(p, from.PayoutDate, capture.Currency, capture.Net, 0)
		add(p, to.PayoutDate, capture.Currency, 0, capture.Net)
		if from == to {
			continue
		}
		p.Summary.CapturesMoved++
		first := min(from.Date, to.Date)
		if f := p.Summary.FirstAffectedBatchDate; f == tollgate.NoDate || first < f {
			p.Summary.FirstAffectedBatchDate = first
		}
		money := tollgate.Money{Minor: capture.Net, Currency: capture.Currency}
		p.Moves = append(p.Moves, tollgate.PreviewMove{
			FromBatchDate: from.Date, ToBatchDate: to.Date, FromPayoutDate: from.PayoutDate, ToPayoutDate: to.PayoutDate,
			Count: 1, Amount: money, Currency: capture.Currency,
		})
		p.Summary.AmountsMoved = append(p.Summary.AmountsMoved, tollgate.PreviewAmount{Currency: capture.Currency, Amount: money})
	}
	slices.SortFunc(p.Payouts, func(a, b tollgate.PreviewPayout) int {
		return cmp.Compare(fmt.Sprint(a.PayoutDate, a.Currency), fmt.Sprint(b.PayoutDate, b.Currency))
	})
	name := func(m tollgate.PreviewMove) string {
		return fmt.Sprint(m.FromBatchDate, m.ToBatchDate, m.FromPayoutDate, m.ToPayoutDate, m.Currency)
	}
	slices.SortFunc(p.Moves, func(a, b tollgate.PreviewMove) int { return cmp.Compare(name(a), name(b)) })
	for i := 0; i+1 < len(p.Moves); {
		if name(p.Moves[i]) != name(p.Moves[i+1]) {
			i++
			continue
		}
		p.Moves[i].Count += p.Moves[i+1].Count
		p.Moves[i].Amount.Minor += p.Moves[i+1].Amount.Minor
		p.Moves = slices.Delete(p.Moves, i+1, i+2)
	}
	slices.SortFunc(p.Summary.AmountsMoved, func(a, b tollgate.PreviewAmount) int { return cmp.Compare(a.Currency, b.Currency) })
	for i := 0; i+1 < len(p.Summary.AmountsMoved); {
		if all := p.Summary.AmountsMoved; all[i].Currency == all[i+1].Currency {
			all[i].Amount.Minor += all[i+1].Amount.Minor
			p.Summary.AmountsMoved = slices.Delete(all, i+1, i+2)
			continue
		}
		i++
	}
	return p
}

func add(p *tollgate.CutoffPreview, d tollgate.Date, c tollgate.Currency, now, then int64) {
	money := func(n int64) tollgate.Money { return tollgate.Money{Minor: n, Currency: c} }
	for i := range p.Payouts {
		if row := &p.Payouts[i]; row.PayoutDate == d && row.Currency == c {
			row.AmountCurrent.Minor += now
			row.AmountProposed.Minor += then
			row.Delta.Minor += then - now
			return
		}
	}
	p.Payouts = append(p.Payouts, tollgate.PreviewPayout{
		PayoutDate: d, Currency: c, AmountCurrent: money(now), AmountProposed: money(then), Delta: money(then - now),
	})
}

type slowTimeline struct {
	t        *testing.T
	versions []tollgate.CutoffVersion
	ends     map[tollgate.Date]tollgate.Instant
}

func (s *slowTimeline) at(d tollgate.Date) tollgate.Cutoff {
	v := s.versions[0]
	for _, later := range s.versions[1:] {
		if later.EffectiveDate <= d {
			v = later
		}
	}
	return v.Cutoff
}

func (s *slowTimeline) day(i tollgate.Instant) tollgate.Date {
	for d := tollgate.DateOf(i.Time()) - 4; ; d++ {
		if i < s.end(d) {
			return d
		}
	}
}

// end looks at the clock at the end of every quarter of an hour, in which it is
// not changed, then every minute, until it shows the cutoff time.
func (s *slowTimeline) end(d tollgate.Date) tollgate.Instant {
	if end, ok := s.ends[d]; ok {
		return end
	}
	c := s.at(d)
	zone, err := tollgate.LoadZone(c.TimeZone)
	if err != nil {
		s.t.Fatal(err)
	}
	wall := d.String() + " " + c.CutoffTime
	at := d.Time().Add(-24 * time.Hour)
	for at.Add(14*time.Minute).In(zone).Format("2006-01-02 15:04") < wall {
		at = at.Add(15 * time.Minute)
	}
	for at.In(zone).Format("2006-01-02 15:04") < wall {
		at = at.Add(time.Minute)
	}
	s.ends[d] = tollgate.At(at)
	return s.ends[d]
}

func (s *slowTimeline) payout(d tollgate.Date) tollgate.Date {
	c := s.at(d)
	open := func(t time.Time) bool {
		weekend := t.Weekday() == time.Saturday || t.Weekday() == time.Sunday
		return c.Calendar == "none" || (!weekend && !strings.Contains(closingDays[c.Calendar], t.Format(time.DateOnly)))
	}
	at := d.Time()
	for !open(at) {
		at = at.AddDate(0, 0, 1)
	}
	for n := 0; n < c.SettlementDelayDays; {
		if at = at.AddDate(0, 0, 1); open(at) {
			n++
		}
	}
	for (c.Interval == "weekly" && at.Weekday() != time.Monday) || (c.Interval == "monthly" && at.Day() != 1) {
		at = at.AddDate(0, 0, 1)
	}
	for !open(at) {
		at = at.AddDate(0, 0, 1)
	}
	return tollgate.DateOf(at)
}
