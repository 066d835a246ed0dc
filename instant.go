package tollgate

import (
	"fmt"
	"time"
)

// Instant is a moment in Unix milliseconds, UTC. Zero means "no value" and is
// null in JSON; otherwise it is RFC 3339 with milliseconds
// ("2026-11-21T18:16:28.123Z"), as every time in the interface.
type Instant int64

const instantLayout = "2006-01-02T15:04:05.000Z"

// At truncates t to the millisecond.
func At(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time is the moment in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add moves the moment by d, truncated to the millisecond.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

func (i Instant) String() string { return i.Time().Format(instantLayout) }

// MarshalJSON prints null for zero.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i == 0 {
		return []byte("null"), nil
	}
	b := make([]byte, 0, len(instantLayout)+2)
	b = i.Time().AppendFormat(append(b, '"'), instantLayout)
	return append(b, '"'), nil
}

// UnmarshalJSON accepts what MarshalJSON prints.
func (i *Instant) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*i = 0
		return nil
	}
	if len(b) < 2 || b[0] != '"' {
		return fmt.Errorf("a time is an RFC 3339 string")
	}
	parsed, err := ParseInstant(string(b[1 : len(b)-1]))
	*i = parsed
	return err
}

// ParseInstant reads an RFC 3339 time of any offset, from 1970 to 9999.
func ParseInstant(s string) (Instant, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Unix() < 1 || t.UTC().Year() > 9999 {
		return 0, fmt.Errorf("%s is not an RFC 3339 time between 1970 and 9999", quoted(s))
	}
	return At(t), nil
}

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
