package handlers_test

import (
	"slices"
	"strings"
	"time"

	"tollgate"
)

// payoutOperations are those of payouts: one that is paid, and one that is held
// because its stored sum is another one than its capture's.
func (w *world) payoutOperations(ids, page []queryParameter) []*operation {
	w.t.Helper()
	for _, account := range []string{"eur", "wide"} {
		body := `{"merchant_account_id":"` + w.vars[account] + `","amount":"100.00","currency":"EUR","payee":"shop.example","capture_method":"automatic"}`
		w.want(w.pay("paid-"+account, body), 201, "")
	}
	held := w.payOut("wide")
	list := slices.Concat(ids, []queryParameter{
		{"status", "held", []string{"nonsense", "available", "held,", "HELD"}},
		{"currency", "EUR", []string{"eur", "XXX"}},
		{"created_after", "2026-03-02T09:00:00Z", []string{"yesterday"}},
		{"created_before", "2027-03-02T09:00:00Z", []string{"yesterday"}},
	}, slices.Clone(page))
	return []*operation{
		{id: "listPayouts", method: "GET", path: "/v1/payouts", query: list},
		{id: "readPayout", method: "GET", path: "/v1/payouts/" + held, pathID: held},
		{
			id: "releasePayout", method: "POST", path: "/v1/payouts/" + held + "/release", pathID: held, media: "application/json",
			body: []member{{"reason", `"looked at"`, text255, true}}, key: "accepted",
		},
	}
}

// payOut makes the payouts of all accounts as a worker does a week later, and
// pays them, but for the one of an account whose stored sum is damaged first; it
// returns that one.
func (w *world) payOut(damaged string) (held string) {
	w.t.Helper()
	later := *w
	later.store = w.open(func() time.Time { return w.service().Add(7 * 24 * time.Hour) })
	return later.settleDamaged(damaged)
}

func (w *world) settleDamaged(damaged string) (held string) {
	w.t.Helper()
	later := w
	for partition := range later.store.Partitions() {
		due, err := later.store.DueAccounts(w.t.Context(), partition, 1000)
		must(w.t, due, err)
		for _, d := range due {
			n, err := later.store.CloseDays(w.t.Context(), d.Organization, d.ID)
			must(w.t, n, err)
		}
	}
	for key, hash := range dump(w.t, w.redis) {
		i := strings.LastIndex(key, ":"+tollgate.PrefixPayout)
		if i < 0 || !strings.Contains(hash, "\x00ma="+w.vars[damaged]) || !strings.Contains(hash, "\x00st=pending") {
			continue
		}
		held = key[i+1:]
		for pair := range strings.SplitSeq(strings.TrimPrefix(hash, "hash "), "\x00") {
			if groups, ok := strings.CutPrefix(pair, "grp="); ok {
				check(w.t, command(w.t, w.redis, "HSET", key, "grp", strings.Replace(groups, " 10000 ", " 90000 ", 1), "e", "1"))
			}
		}
	}
	check(w.t, later.settle(w.t.Context(), tollgate.PayoutOutcome{}))
	return held
}
