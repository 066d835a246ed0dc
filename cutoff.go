package tollgate

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"
)

// Cutoff is when an account's sales day ends and when it is paid
// (interface §10).
type Cutoff struct {
	CutoffTime          string `json:"cutoff_time"`           // "HH:MM"
	TimeZone            string `json:"time_zone"`             // IANA
	SettlementDelayDays int    `json:"settlement_delay_days"` // 0–20 business days
	Calendar            string `json:"calendar"`              // none, target, us_fed or uk
	Interval            string `json:"interval"`              // daily, weekly or monthly
	Version             int64  `json:"version"`
}

// Check reports everything that is wrong with a cutoff.
func (c *Cutoff) Check() error {
	var faults []error
	for _, f := range c.faults() {
		faults = append(faults, f)
	}
	return errors.Join(faults...)
}

// cutoffFault is what is wrong with one member.
type cutoffFault struct {
	member string
	err    error
}

func (f cutoffFault) Error() string { return f.member + ": " + f.err.Error() }

func (c *Cutoff) faults() (all []cutoffFault) {
	fault := func(member string, err error) {
		if err != nil {
			all = append(all, cutoffFault{member, err})
		}
	}
	_, err := wallTime(c.CutoffTime)
	fault("cutoff_time", err)
	_, err = LoadZone(c.TimeZone)
	fault("time_zone", err)
	if c.SettlementDelayDays < 0 || c.SettlementDelayDays > 20 {
		fault("settlement_delay_days", fmt.Errorf("%d is not between 0 and 20", c.SettlementDelayDays))
	}
	for _, choice := range []struct {
		member, value string
		allowed       []string
	}{{"calendar", c.Calendar, calendarNames}, {"interval", c.Interval, intervals}} {
		if !slices.Contains(choice.allowed, choice.value) {
			fault(choice.member, fmt.Errorf("%s is not one of %v", quoted(choice.value), choice.allowed))
		}
	}
	return all
}

// invalid reports every fault as CodeCutoffInvalid; prefix is what the members
// are called by.
func (c *Cutoff) invalid(prefix string) error {
	var all []Detail
	for _, f := range c.faults() {
		param := prefix + f.member
		all = append(all, Detail{Param: param, Code: CodeCutoffInvalid, Message: fmt.Sprintf("%s: %v.", param, f.err)})
	}
	if len(all) == 0 {
		return nil
	}
	e := &Error{Code: CodeCutoffInvalid, Param: all[0].Param, Message: all[0].Message}
	if len(all) > 1 {
		e.Details = all
	}
	return e
}

const (
	daily   = "daily"
	weekly  = "weekly"
	monthly = "monthly"
)

var intervals = []string{daily, weekly, monthly}

// rules are a cutoff made ready to compute with.
type rules struct {
	zone     *time.Location
	minutes  int // of the local day
	delay    int
	calendar *calendar
	interval string
}

func (c *Cutoff) compile() (*rules, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	zone, err := LoadZone(c.TimeZone)
	if err != nil {
		return nil, err
	}
	minutes, err := wallTime(c.CutoffTime)
	return &rules{zone, minutes, c.SettlementDelayDays, calendars[c.Calendar], c.Interval}, err
}

// end is the first instant at which the zone's clocks show the wall time of
// day d or later: the first of two where they are put back over it, the first
// behind the gap where they are put forward over it — also where a zone moved
// across the date line and left out the whole day, which then has no length
// or a short one.
func (r *rules) end(d Date) Instant {
	wall := int64(d)*secondsPerDay + int64(r.minutes)*60
	const (
		reach = 16 * 60 * 60 // no clock is further from UTC
		step  = 8 * 60 * 60  // since 1970 no clock was changed twice within a week
	)
	for at := wall - reach; ; {
		offset, change := r.offset(at), at+step
		if r.offset(change) != offset {
			// time.Time.ZoneBounds would say when, but is wrong at the end of
			// leap years: it gives an end that has passed.
			change = at + int64(sort.Search(step, func(n int) bool { return r.offset(at+int64(n)) != offset }))
		}
		if first := max(wall-offset, at); first < change {
			return Instant(first * 1000)
		}
		at = change
	}
}

// offset is how far the zone's clocks are ahead of UTC, in seconds.
func (r *rules) offset(unix int64) int64 {
	_, seconds := time.Unix(unix, 0).In(r.zone).Zone()
	return int64(seconds)
}

// skips reports whether the wall time of day d does not exist.
func (r *rules) skips(d Date) bool {
	local := r.end(d).Time().In(r.zone)
	return DateOf(local) != d || local.Hour()*60+local.Minute() != r.minutes
}

// payout is the day on which sales day d is paid: d rolled to a business day,
// the delay in business days, then the interval's next day, on a business day.
// It is never before d, and never goes back as d goes on.
func (r *rules) payout(d Date) Date {
	d = r.calendar.add(r.calendar.roll(d), r.delay)
	switch r.interval {
	case weekly: // Monday
		d += Date((8 - d.Weekday()) % 7)
	case monthly: // the first of a month
		if t := d.Time(); t.Day() > 1 {
			d = civil(t.Year(), t.Month()+1, 1)
		}
	}
	return r.calendar.roll(d)
}
