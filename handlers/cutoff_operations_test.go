package handlers_test

import "strings"

const (
	cutoffMember kindOf = "a text that is part of a cutoff"
	delayDays    kindOf = "a number of days"
	proposal     kindOf = "a proposed cutoff"
	window       kindOf = "a window of time"
	day          kindOf = "a day of the calendar"
	anyTime      kindOf = "a time"
)

// cutoffOperations are those of previews: the members of the two inner objects,
// then those of the body itself.
func (w *world) cutoffOperations() []*operation {
	preview := operation{id: "previewCutoff", method: "POST", path: "/v1/cutoffs/preview", media: "application/json"}
	proposed, within, whole := preview, preview, preview
	account := `{"merchant_account_id":` + quotedJSON(w.vars["eur"]) + `,`
	proposed.prefix, proposed.around = "proposed.", account+`"proposed":%s}`
	proposed.body = []member{
		{"cutoff_time", `"23:00"`, cutoffMember, false},
		{"time_zone", `"Asia/Tokyo"`, cutoffMember, false},
		{"settlement_delay_days", "3", delayDays, false},
		{"calendar", `"uk"`, cutoffMember, false},
		{"interval", `"weekly"`, cutoffMember, false},
	}
	within.prefix, within.around = "window.", account+`"proposed":{},"window":%s}`
	within.body = []member{
		{"from", `"2026-03-01T00:00:00Z"`, anyTime, false},
		{"to", `"2026-03-02T12:00:00+01:00"`, anyTime, false},
	}
	whole.body = []member{
		{"merchant_account_id", quotedJSON(w.vars["eur"]), identifier, true},
		{"proposed", `{"cutoff_time":"23:00"}`, proposal, true},
		{"effective_date", `"2026-03-01"`, day, false},
		{"window", `{"from":"2026-03-01T00:00:00Z"}`, window, false},
	}
	return []*operation{&proposed, &within, &whole}
}

func wrongForCutoffs(kind kindOf) (list []wrongValue) {
	add := func(status int, code string, raws ...string) {
		for _, raw := range raws {
			list = append(list, wrongValue{raw, status, code, ""})
		}
	}
	long := quotedJSON(strings.Repeat("x", 60000))
	switch kind {
	case cutoffMember: // wrong for each of them
		add(422, "cutoff_invalid", `""`, `" "`, `"25:00"`, `"24:00"`, `"17:60"`, `"5:00"`, `"17:00:00"`, `"17.00"`, `" 17:00"`, `"-1:00"`, `"１７:00"`, `"17:00\u0000"`,
			`"Local"`, `"europe/berlin"`, `"Europe/Berlin "`, `"Mars/Olympus"`, `"../../etc/passwd"`, `"+01:00"`, `"CET-1CEST,M3.5.0"`, `"Europe"`,
			`"mayan"`, `"Target"`, `"hourly"`, `"DAILY"`, `"null"`, long)
	case delayDays:
		add(422, "cutoff_invalid", "21", "-1", "365", "2147483647")
		add(400, "parameter_invalid", "1.5", "3.0", "-0", "1e1", "99999999999999999999", `"3"`)
	case day:
		add(400, "parameter_invalid", `""`, `"today"`, `"2026-02-29"`, `"2026-2-1"`, `"2026-03-01T00:00:00Z"`, `"1970-01-01"`, `"20260-01-01"`, `"2026-03-01 "`, `"2026/03/01"`, long)
	case anyTime:
		add(400, "parameter_invalid", `""`, `"yesterday"`, `"2026-03-01"`, `"2026-03-01T00:00:00"`, `"2026-02-30T00:00:00Z"`, `"1969-12-31T23:59:59Z"`, `"20260-01-01T00:00:00Z"`, long)
	case window:
		add(422, "cutoff_invalid", `{"from":"2026-03-03T00:00:00Z"}`, `{"from":"2026-03-01T00:00:00Z","to":"2026-03-01T00:00:00Z"}`,
			`{"from":"2026-03-01T00:00:00.001Z","to":"2026-03-01T00:00:00Z"}`, `{"from":"2024-03-01T00:00:00Z"}`, `{"from":"2025-11-30T08:59:59Z"}`,
			`{"from":"1970-01-02T00:00:00Z","to":"9999-12-31T23:59:59Z"}`)
	}
	return list
}
