package tollgate_test

import (
	"encoding/json"
	"testing"
	"time"

	"tollgate"
)

func TestDate(t *testing.T) {
	for _, text := range []string{"1970-01-02", "1999-12-31", "2000-02-29", "2026-11-21", "9999-12-31"} {
		d, err := tollgate.ParseDate(text)
		if err != nil || d.String() != text {
			t.Errorf("%s: %v, %v", text, d, err)
		}
		printed, err := json.Marshal(d)
		var back tollgate.Date
		if err != nil || string(printed) != `"`+text+`"` || json.Unmarshal(printed, &back) != nil || back != d {
			t.Errorf("%s in JSON is %s, read back as %v: %v", text, printed, back, err)
		}
	}
	for _, text := range []string{
		"", "1970-01-01", "1969-12-31", "2026-02-29", "2026-1-2", "26-01-02", "2026-13-01", "2026-00-10", "10000-01-01",
		"2026-11-21T00:00:00Z", " 2026-11-21", "2026/11/21", "today", "-2026-11-21", "２０２６-11-21",
	} {
		if d, err := tollgate.ParseDate(text); err == nil || d != tollgate.NoDate {
			t.Errorf("%q is %v", text, d)
		}
	}
	d := date(t, "2026-11-21")
	if json.Unmarshal([]byte("null"), &d) != nil || d != tollgate.NoDate {
		t.Errorf("null is %v", d)
	}
	if printed, err := json.Marshal(tollgate.NoDate); err != nil || string(printed) != "null" {
		t.Errorf("no date is %s, %v", printed, err)
	}
	for _, text := range []string{`20261121`, `"`, `""`, `"null"`, `["2026-11-21"]`, `true`} {
		if json.Unmarshal([]byte(text), &d) == nil {
			t.Errorf("%s is %v", text, d)
		}
	}
}

// A moment has another date elsewhere.
func TestDateOf(t *testing.T) {
	at := time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC)
	for zone, want := range map[string]string{"UTC": "2026-11-21", "Asia/Tokyo": "2026-11-22", "Pacific/Honolulu": "2026-11-21"} {
		location, err := tollgate.LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := tollgate.DateOf(at.In(location)); got.String() != want {
			t.Errorf("%s: %v, want %s", zone, got, want)
		}
	}
	if d := tollgate.DateOf(time.Date(1969, 12, 31, 23, 0, 0, 0, time.UTC)); d != -1 {
		t.Errorf("the day before the epoch is %d", d)
	}
	if d := date(t, "2026-11-21"); d.Weekday() != time.Saturday {
		t.Errorf("%v is a %v", d, d.Weekday())
	}
}

// What is a date is printed as it was read.
func FuzzParseDate(f *testing.F) {
	for _, text := range []string{"2026-11-21", "1970-01-02", "9999-12-31", "2026-02-29", "", "2026-11-21T00:00:00Z", "0000-00-00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := tollgate.ParseDate(text)
		switch {
		case err == nil && (d.String() != text || d <= tollgate.NoDate):
			t.Errorf("%q is %v (%d)", text, d, d)
		case err != nil && d != tollgate.NoDate:
			t.Errorf("%q is no date and %v", text, d)
		}
	})
}
