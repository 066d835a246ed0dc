package tollgate

import (
	"fmt"
	"time"
)

// Date is a day of the civil calendar, whatever the time zone, in days since
// 1970-01-01. Zero is NoDate and null in JSON; otherwise it is "2006-01-02".
type Date int32

// NoDate is the absence of a date. 1970-01-01 itself is none that the service
// has to do with.
const NoDate Date = 0

// ParseDate reads a date of the form "2006-01-02", from 1970-01-02 to
// 9999-12-31.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if d := DateOf(t); err == nil && d > NoDate {
		return d, nil
	}
	return NoDate, fmt.Errorf("%s is not a date of the form 2006-01-02 after 1970-01-01", quoted(s))
}

// DateOf is the day that t's own location shows.
func DateOf(t time.Time) Date {
	year, month, day := t.Date()
	return civil(year, month, day)
}

// civil counts the days to a date; months and days beyond their range carry
// over, as in time.Date.
func civil(year int, month time.Month, day int) Date {
	// Midnight UTC: the division is exact before 1970 too.
	return Date(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)
}

const secondsPerDay = 24 * 60 * 60

// Time is the day's midnight in UTC.
func (d Date) Time() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// Weekday is the day of the week.
func (d Date) Weekday() time.Weekday { return d.Time().Weekday() }

func (d Date) String() string { return d.Time().Format(time.DateOnly) }

// MarshalJSON prints null for NoDate.
func (d Date) MarshalJSON() ([]byte, error) {
	if d == NoDate {
		return []byte("null"), nil
	}
	return []byte(`"` + d.String() + `"`), nil
}

// UnmarshalJSON accepts what MarshalJSON prints.
func (d *Date) UnmarshalJSON(b []byte) (err error) {
	if string(b) == "null" {
		*d = NoDate
		return nil
	}
	if len(b) < 2 || b[0] != '"' {
		return fmt.Errorf("a date is a string of the form 2006-01-02")
	}
	*d, err = ParseDate(string(b[1 : len(b)-1]))
	return err
}
