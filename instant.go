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
