package tollgate

import (
	"fmt"
	"slices"
	"time"
)

// scheduleForm is a perimeter's opening hours: local wall-clock times
// "HH:MM", half-open. Without days it is every day, with an empty list never; to
// at or before from reaches into the next day, which then belongs to the day on
// which it began.
type scheduleForm struct {
	TimeZone string   `json:"time_zone"`
	Days     []string `json:"days"`
	From     string   `json:"from"`
	To       string   `json:"to"`
}

type schedule struct {
	zone     *time.Location
	days     [7]bool
	from, to int // minutes of the local day
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// compile prepares it; strict is semantics 2, without which an empty list of days
// is every day, too.
func (f scheduleForm) compile(strict bool) (*schedule, error) {
	s := new(schedule)
	var err error
	if s.zone, err = LoadZone(f.TimeZone); err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	if s.from, err = wallTime(f.From); err != nil {
		return nil, fmt.Errorf("schedule: from: %w", err)
	}
	if s.to, err = wallTime(f.To); err != nil {
		return nil, fmt.Errorf("schedule: to: %w", err)
	}
	for i := range s.days {
		s.days[i] = f.Days == nil || !strict && len(f.Days) == 0
	}
	for _, day := range f.Days {
		i := slices.Index(weekdays, day)
		if i < 0 {
			return nil, fmt.Errorf("schedule: %s is not a day (mon, tue, … sun)", quoted(day))
		}
		s.days[i] = true
	}
	return s, nil
}

func (s *schedule) open(now time.Time) bool {
	local := now.In(s.zone)
	minute := local.Hour()*60 + local.Minute()
	today := s.days[local.Weekday()]
	yesterday := s.days[(local.Weekday()+6)%7]
	if s.from < s.to {
		return today && minute >= s.from && minute < s.to
	}
	return (today && minute >= s.from) || (yesterday && minute < s.to)
}

// wallTime reads "HH:MM" (00:00–23:59) as minutes of the day.
func wallTime(s string) (int, error) {
	if len(s) != 5 || s[2] != ':' || !digits(s[:2]) || !digits(s[3:]) {
		return 0, fmt.Errorf("%s is not a time of the form HH:MM", quoted(s))
	}
	h, m := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	if h > 23 || m > 59 {
		return 0, fmt.Errorf("%s is not a time of the day", quoted(s))
	}
	return h*60 + m, nil
}
