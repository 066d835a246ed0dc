package tollgate_test

import (
	"strings"
	"testing"
	"time"

	"tollgate"
)

// closingDays are written down from what the operators publish, weekdays only:
// the ECB's TARGET closing days, the Federal Reserve Banks' holiday schedules
// and the bank holidays in England and Wales of gov.uk.
var closingDays = map[string]string{
	"target": `
		2022-04-15 2022-04-18 2022-12-26
		2023-04-07 2023-04-10 2023-05-01 2023-12-25 2023-12-26
		2024-01-01 2024-03-29 2024-04-01 2024-05-01 2024-12-25 2024-12-26
		2025-01-01 2025-04-18 2025-04-21 2025-05-01 2025-12-25 2025-12-26
		2026-01-01 2026-04-03 2026-04-06 2026-05-01 2026-12-25
		2027-01-01 2027-03-26 2027-03-29`,
	// Open on 2021-12-31, 2023-11-10, 2026-07-03, 2027-06-18 and 2027-12-24,
	// the Fridays before a holiday on Saturday.
	"us_fed": `
		2022-01-17 2022-02-21 2022-05-30 2022-06-20 2022-07-04 2022-09-05 2022-10-10 2022-11-11 2022-11-24 2022-12-26
		2023-01-02 2023-01-16 2023-02-20 2023-05-29 2023-06-19 2023-07-04 2023-09-04 2023-10-09 2023-11-23 2023-12-25
		2024-01-01 2024-01-15 2024-02-19 2024-05-27 2024-06-19 2024-07-04 2024-09-02 2024-10-14 2024-11-11 2024-11-28 2024-12-25
		2025-01-01 2025-01-20 2025-02-17 2025-05-26 2025-06-19 2025-07-04 2025-09-01 2025-10-13 2025-11-11 2025-11-27 2025-12-25
		2026-01-01 2026-01-19 2026-02-16 2026-05-25 2026-06-19 2026-09-07 2026-10-12 2026-11-11 2026-11-26 2026-12-25
		2027-01-01 2027-01-18 2027-02-15 2027-05-31 2027-07-05 2027-09-06 2027-10-11 2027-11-11 2027-11-25`,
	"uk": `
		2020-01-01 2020-04-10 2020-04-13 2020-05-08 2020-05-25 2020-08-31 2020-12-25 2020-12-28
		2021-01-01 2021-04-02 2021-04-05 2021-05-03 2021-05-31 2021-08-30 2021-12-27 2021-12-28
		2022-01-03 2022-04-15 2022-04-18 2022-05-02 2022-06-02 2022-06-03 2022-08-29 2022-09-19 2022-12-26 2022-12-27
		2023-01-02 2023-04-07 2023-04-10 2023-05-01 2023-05-08 2023-05-29 2023-08-28 2023-12-25 2023-12-26
		2024-01-01 2024-03-29 2024-04-01 2024-05-06 2024-05-27 2024-08-26 2024-12-25 2024-12-26
		2025-01-01 2025-04-18 2025-04-21 2025-05-05 2025-05-26 2025-08-25 2025-12-25 2025-12-26
		2026-01-01 2026-04-03 2026-04-06 2026-05-04 2026-05-25 2026-08-31 2026-12-25 2026-12-28`,
	"none": "",
}

func TestBusinessDaysAreThePublishedOnes(t *testing.T) {
	years := map[string][2]int{"target": {2022, 2027}, "us_fed": {2022, 2027}, "uk": {2020, 2026}, "none": {2020, 2027}}
	for name, list := range closingDays {
		line := timeline(t, tollgate.Cutoff{CutoffTime: "17:00", TimeZone: "UTC", Calendar: name, Interval: "daily", Version: 1})
		closed := map[string]bool{}
		for day := range strings.FieldsSeq(list) {
			closed[day] = true
		}
		first := time.Date(years[name][0], 1, 1, 0, 0, 0, 0, time.UTC)
		for at := first; at.Year() <= years[name][1]; at = at.AddDate(0, 0, 1) {
			d := tollgate.DateOf(at)
			weekend := name != "none" && (at.Weekday() == time.Saturday || at.Weekday() == time.Sunday)
			want := !weekend && !closed[d.String()]
			if got := line.PayoutDate(d) == d; got != want {
				t.Errorf("%s: %s %v is a business day: %t, want %t", name, at.Weekday(), d, got, want)
			}
		}
	}
	line := timeline(t, tollgate.Cutoff{CutoffTime: "17:00", TimeZone: "UTC", Calendar: "us_fed", Interval: "daily", Version: 1})
	if d := date(t, "2021-12-31"); line.PayoutDate(d) != d {
		t.Error("the Reserve Banks were open on 31 December 2021")
	}
}

func TestPayoutDate(t *testing.T) {
	for _, c := range []struct {
		calendar, interval string
		delay              int
		day, want          string
	}{
		{"none", "daily", 0, "2026-11-21", "2026-11-21"},
		{"none", "daily", 2, "2026-11-21", "2026-11-23"},
		{"target", "daily", 0, "2026-11-21", "2026-11-23"}, // Saturday
		{"target", "daily", 2, "2026-11-20", "2026-11-24"},
		{"target", "daily", 2, "2026-12-23", "2026-12-28"}, // over Christmas and a weekend
		{"target", "daily", 1, "2027-03-25", "2027-03-30"}, // over Easter
		{"uk", "daily", 1, "2026-12-24", "2026-12-29"},
		{"us_fed", "daily", 1, "2026-07-02", "2026-07-03"},
		{"none", "weekly", 0, "2026-11-23", "2026-11-23"}, // a Monday
		{"none", "weekly", 1, "2026-11-23", "2026-11-30"},
		{"none", "weekly", 0, "2026-11-22", "2026-11-23"},
		{"uk", "weekly", 2, "2026-05-19", "2026-05-26"}, // Monday 25 May is a bank holiday
		{"none", "monthly", 0, "2026-11-01", "2026-11-01"},
		{"none", "monthly", 0, "2026-11-02", "2026-12-01"},
		{"none", "monthly", 0, "2026-12-02", "2027-01-01"},
		{"target", "monthly", 0, "2026-12-02", "2027-01-04"}, // 1 January is a Friday
		{"target", "monthly", 20, "2026-10-02", "2026-11-02"},
		{"target", "monthly", 0, "2028-02-02", "2028-03-01"},
		{"target", "daily", 20, "2026-11-20", "2026-12-18"},
	} {
		line := timeline(t, tollgate.Cutoff{
			CutoffTime: "17:00", TimeZone: "UTC", SettlementDelayDays: c.delay, Calendar: c.calendar, Interval: c.interval, Version: 1,
		})
		if got := line.PayoutDate(date(t, c.day)).String(); got != c.want {
			t.Errorf("%s %s after %d days: %s is paid on %s, want %s", c.calendar, c.interval, c.delay, c.day, got, c.want)
		}
	}
}

// A later day is never paid earlier, and no day before itself.
func TestPayoutDatesDoNotGoBack(t *testing.T) {
	for calendar := range closingDays {
		for _, interval := range []string{"daily", "weekly", "monthly"} {
			for _, delay := range []int{0, 1, 2, 7, 20} {
				line := timeline(t, tollgate.Cutoff{
					CutoffTime: "17:00", TimeZone: "UTC", SettlementDelayDays: delay, Calendar: calendar, Interval: interval, Version: 1,
				})
				last := tollgate.NoDate
				for d := date(t, "2025-12-01"); d < date(t, "2028-03-01"); d++ {
					paid := line.PayoutDate(d)
					if paid < last || paid < d {
						t.Fatalf("%s %s %d: %v is paid on %v, the day before on %v", calendar, interval, delay, d, paid, last)
					}
					last = paid
				}
			}
		}
	}
}
