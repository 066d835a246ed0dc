package tollgate

import (
	"slices"
	"sync"
	"time"

	"github.com/rickar/cal/v2"
	"github.com/rickar/cal/v2/ecb"
	"github.com/rickar/cal/v2/gb"
	"github.com/rickar/cal/v2/us"
)

// calendar knows on which days banks settle (interface §10). The lists are
// right from 2020 on; a bank holiday that is proclaimed later comes with a new
// release of the library, or below.
type calendar struct {
	holidays []*cal.Holiday // nil: every day is a business day
	years    sync.Map       // the closing days of a year, []Date
}

// calendars by their names in a cutoff. The name none has no closing days at
// all, weekends included.
var calendars = func() map[string]*calendar {
	// The library makes its days in the machine's zone, where midnight may not
	// exist.
	cal.DefaultLoc = time.UTC
	return map[string]*calendar{
		"none":   {},
		"target": {holidays: ecb.Holidays},
		"us_fed": {holidays: fedHolidays()},
		"uk":     {holidays: append(slices.Clone(gb.Holidays), stateFuneral)},
	}
}()

var calendarNames = []string{"none", "target", "us_fed", "uk"}

// fedHolidays are the Federal Reserve Banks' holidays, on which Fedwire and
// FedACH are closed. Those that fall on a Sunday are kept on Monday, but for
// those that fall on a Saturday the Banks are open on the Friday before
// (frbservices.org, "Holiday Schedules"), which the library's federal
// employees have off.
func fedHolidays() []*cal.Holiday {
	all := make([]*cal.Holiday, len(us.Holidays))
	for i, h := range us.Holidays {
		all[i] = h.Clone(&cal.Holiday{Observed: []cal.AltDay{{Day: time.Sunday, Offset: 1}}})
	}
	return all
}

// stateFuneral is the bank holiday of 19 September 2022, proclaimed on 10
// September of that year for the funeral of Queen Elizabeth II, which the
// library lacks (gov.uk/bank-holidays).
var stateFuneral = &cal.Holiday{
	Name: "State Funeral of Queen Elizabeth II", Type: cal.ObservanceBank,
	Month: time.September, Day: 19, Func: cal.CalcDayOfMonth, StartYear: 2022, EndYear: 2022,
}

// business reports whether banks settle on a day.
func (c *calendar) business(d Date) bool {
	if c.holidays == nil {
		return true
	}
	t := d.Time()
	if w := t.Weekday(); w == time.Saturday || w == time.Sunday {
		return false
	}
	return !slices.Contains(c.closed(t.Year()), d)
}

// closed are a year's closing days. A substitute day never leaves the year of
// its holiday: only Sundays and Christmas move, and forward.
func (c *calendar) closed(year int) []Date {
	if days, ok := c.years.Load(year); ok {
		return days.([]Date)
	}
	days := make([]Date, 0, len(c.holidays))
	for _, h := range c.holidays {
		if _, observed := h.Calc(year); !observed.IsZero() {
			days = append(days, DateOf(observed))
		}
	}
	c.years.Store(year, days)
	return days
}

// roll is the first business day on or after d.
func (c *calendar) roll(d Date) Date {
	for !c.business(d) {
		d++
	}
	return d
}

// add goes n business days on from a business day.
func (c *calendar) add(d Date, n int) Date {
	for range n {
		d = c.roll(d + 1)
	}
	return d
}
