package tollgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// Windows are local days and months, also where the clocks are changed at
// midnight; whoever is counted together has the same counter.
func TestWindowsOfLimits(t *testing.T) {
	uses := func(constraints, account, whom, at string) []tollgate.Reservation {
		t.Helper()
		p, err := tollgate.PerimeterDocument{ID: "per_1", Version: 1, Constraints: jsontext.Value(constraints)}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		return p.Reservations(account, tollgate.Money{Minor: 150, Currency: "EUR"}, payee(t, whom), now)
	}
	const day = `{"budgets":[{"window":"day","time_zone":%q,"currency":"EUR","amount":"2.00","per":"merchant_account"}]}`
	const month = `{"frequency":[{"window":"month","time_zone":%q,"count":3,"per":"payee"}]}`
	windows := map[string]string{} // by counter
	for _, c := range []struct{ limit, zone, at, window, until string }{
		{day, "UTC", "2026-11-21T23:59:59.999Z", "2026-11-21", "2026-11-22T00:00:00.000Z"},
		{day, "UTC", "2026-11-22T00:00:00Z", "2026-11-22", "2026-11-23T00:00:00.000Z"},
		{day, "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29", "2026-03-29T22:00:00.000Z"},     // 23 hours
		{day, "Europe/Berlin", "2026-10-25T22:59:59Z", "2026-10-25", "2026-10-25T23:00:00.000Z"},     // 25 hours
		{day, "America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03", ""},                         // the last second before midnight,
		{day, "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04", "2018-11-05T02:00:00.000Z"}, // which is 01:00
		{day, "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29", ""},                              // the 30th is left out
		{day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-31T10:00:00.000Z"},
		{month, "Asia/Tokyo", "2026-11-30T14:59:59Z", "2026-11", "2026-11-30T15:00:00.000Z"},
		{month, "Asia/Tokyo", "2026-12-31T15:00:00Z", "2027-01", "2027-01-31T15:00:00.000Z"},
	} {
		limit := fmt.Sprintf(c.limit, c.zone)
		got := uses(limit, "ma_1", "shop.example", c.at)[0]
		if other, ok := windows[got.Counter]; ok {
			t.Errorf("%s %s %s has the counter of %s", c.zone, c.at, c.window, other)
		}
		windows[got.Counter] = c.zone + " " + c.window
		if c.until == "" {
			continue
		}
		last := uses(limit, "ma_1", "shop.example", got.Until.Add(-time.Millisecond).String())[0]
		next := uses(limit, "ma_1", "shop.example", c.until)[0]
		if got.Until.String() != c.until || last.Counter != got.Counter || next.Counter == got.Counter {
			t.Errorf("%s %s: %+v, want %s until %s; %+v, %+v", c.zone, c.at, got, c.window, c.until, last, next)
		}
	}
	const at = "2026-11-21T12:00:00Z"
	counter := func(constraints, account, payee string) string {
		t.Helper()
		return uses(constraints, account, payee, at)[0].Counter
	}
	berlin, tokyo := fmt.Sprintf(day, "Europe/Berlin"), fmt.Sprintf(month, "Asia/Tokyo")
	if counter(berlin, "ma_1", "a.test") != counter(berlin, "ma_1", "b.test") || counter(berlin, "ma_1", "a.test") == counter(berlin, "ma_2", "a.test") {
		t.Error("per account")
	}
	if counter(tokyo, "ma_1", "a.test") != counter(tokyo, "ma_2", "A.test") || counter(tokyo, "ma_1", "a.test") == counter(tokyo, "ma_1", "b.test") {
		t.Error("per payee")
	}
	for payee, whose := range map[string]string{
		"https://a.test": "a.test", "https://A.test:8443/1?q#f": "a.test", "HTTP://a.test.:80/2": "a.test", "a.test.": "a.test",
		"USER@bank": "user@bank", "https://192.0.2.1/": "192.0.2.1", "https://[2001:db8::7]": "2001:DB8:0::7",
	} {
		if counter(tokyo, "ma_1", payee) != counter(tokyo, "ma_1", whose) {
			t.Errorf("%s is not counted as %s", payee, whose)
		}
	}
	for _, payee := range []string{"user@bank", "user2@bank", "bank", "acct:a.test", "de89370400440532013000", "https://b.test/a.test", "bank:account", "tel:+4930123"} {
		for _, other := range []string{"a.test", "other@bank", "b@a.test", "acct:b.test", "tel:+4930124", "bank:other"} {
			if counter(tokyo, "ma_1", payee) == counter(tokyo, "ma_1", other) {
				t.Errorf("%s is counted as %s", payee, other)
			}
		}
	}
	// Counters have the names that they had, so that running windows go on.
	month21 := `{"budgets":[{"window":"month","currency":"EUR","amount":"1","per":"payee"}]}`
	for payee, name := range map[string]string{ // of commit 6025134
		"shop.example": "bcb44d8090089baa323dd8b320034600a", "https://shop.example/a": "bcb44d8090089baa323dd8b320034600a",
		"user@Bank": "b72f8d1869ab60a24c73907c93d831c71", "ACCT-7": "be5f643b6f993d502cbd65d06bad730d1",
	} {
		if got := uses(month21, "ma_1", payee, at); len(got) != 1 || got[0].Counter != name {
			t.Errorf("%s: %+v, want %s", payee, got, name)
		}
	}
	for payee, name := range map[string]string{"https://[::1]/": "b61bf13347da074ce88f02ca820e8ed2c", "tel:4930123456": "b965ff0de8fc940708b206dff655b7ad7"} {
		if got := uses(month21, "ma_1", payee, at); len(got) != 2 || got[1].Counter != name || !got[1].Earlier {
			t.Errorf("%s: %+v, want %s", payee, got, name)
		}
	}
	// Where an earlier release counted a payee as another, that is counted, too.
	for payee, earlier := range map[string]int{"a.test": 1, "https://a.test/": 1, "user@bank": 1, "tel:+4930123": 1, "::1": 2, "https://[::1]/": 2, "2001:DB8::7": 1, "2001:DB8:0::7": 2, "tel:4930123": 2} {
		if got := uses(tokyo, "ma_1", payee, at); len(got) != earlier || got[0].Earlier || (earlier == 2 && !got[1].Earlier) {
			t.Errorf("%s: %+v", payee, got)
		}
	}
	if counter(berlin, "ma_1", "a.test") == counter(fmt.Sprintf(day, "UTC"), "ma_1", "a.test") {
		t.Error("two zones count together")
	}
	if other := uses(strings.Replace(berlin, "EUR", "USD", 1), "ma_1", "a.test", at); len(other) != 0 {
		t.Errorf("a payment in EUR is counted in %+v", other)
	}
	if got := uses(berlin, "ma_1", "a.test", at)[0]; got.Add != 150 || got.Most != 200 || got.Reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("%+v", got)
	}
	if got := uses(tokyo, "ma_1", "a.test", at)[0]; got.Add != 1 || got.Most != 3 || got.Reason != tollgate.ReasonFrequencyExceeded {
		t.Errorf("%+v", got)
	}
}
