package server

import (
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/health"
	"tollgate/rediskv/record"
)

// What doctor says of the keys that sign access tokens.
func TestDoctorOfSigningKeys(t *testing.T) {
	made := tollgate.At(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	one := record.EnvelopedJSON(rediskv.KeyringKey, `{"keys":[{"kid":"one","active_at":"2026-03-02T09:00:00.000Z"}]}`)
	two := record.EnvelopedJSON(rediskv.KeyringKey, `{"keys":[{"kid":"one","active_at":"2026-03-02T09:00:00.000Z"},{"kid":"two","active_at":"2026-04-01T09:00:00.000Z"}]}`)
	given := record.EnvelopedJSON(rediskv.KeyringKey, `{"external":[{"kid":"three","seen_at":"2026-03-02T09:00:00.000Z"}]}`)
	for _, c := range []struct {
		text  string
		days  int
		level health.Level
		says  string
	}{
		{"", 0, health.Unknown, "there are none yet"},
		{one, 0, health.Fine, "one signs since 2026-03-02"},
		{one, 28, health.Fine, "one signs"},
		{one, 30, health.Warning, "there is no next one"},
		{two, 29, health.Fine, "one signs"},
		{two, 30, health.Fine, "two signs since 2026-04-01"},
		{two, 60, health.Warning, "two signs since 2026-04-01"},
		{given, 0, health.Fine, "1 keys were given"},
		{strings.Replace(one, "one", "two", 1), 0, health.Failure, "record_damaged"},
	} {
		f := keysFinding(c.text, made.Add(time.Duration(c.days)*24*time.Hour))
		if f.Level != c.level || !strings.Contains(f.Message, c.says) || (f.Advice == "") != (c.level == health.Fine || c.level == health.Unknown) {
			t.Errorf("after %d days: %+v, want %s %q", c.days, f, c.level, c.says)
		}
	}
}
