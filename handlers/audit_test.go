package handlers_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// auditRows walks through a listing of the audit record, so many entries a page.
func (w *world) auditRows(query string, limit int) (rows []map[string]any) {
	w.t.Helper()
	for next := ""; ; {
		r := w.want(w.call("GET", fmt.Sprintf("/v1/audit?limit=%d%s%s", limit, query, next), ""), 200, "")
		page, _ := r.body["data"].([]any)
		if len(page) > limit {
			w.t.Fatalf("%d rows in a page of %d", len(page), limit)
		}
		for _, row := range page {
			rows = append(rows, row.(map[string]any))
		}
		if r.body["has_more"] == false {
			return rows
		}
		next = "&cursor=" + w.get(r, "next_cursor")
	}
}

func numbers(rows []map[string]any) (list []float64) {
	for _, row := range rows {
		n, _ := row["seq"].(float64)
		list = append(list, n)
	}
	return list
}

// The audit record, page by page: every entry once, the newest first, what a filter
// selects and nothing else. To list it writes nothing.
func TestAuditRecordIsListed(t *testing.T) {
	w := newWorld(t)
	w.token("all", "")
	pay := func(key, payee string) reply {
		return w.pay(key, fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":%q}`, w.vars["eur"], payee))
	}
	paid := w.get(w.want(pay("one", "shop.example"), 201, ""), "id")
	w.want(pay("two", "deny.test"), 403, "perimeter_denied")
	w.clock.Advance(3 * time.Hour)
	clear(w.tokens)
	w.token("all", "")
	noon := w.now().UTC().Format(time.RFC3339)
	w.clock.Advance(3 * time.Hour)
	clear(w.tokens)
	w.token("all", "")
	w.want(w.call("POST", "/v1/payments/"+paid+"/captures", ""), 201, "")
	w.want(w.call("GET", "/v1/payments/pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", ""), 404, "not_found")
	w.want(w.call("GET", "/v1/payments", "", "Authorization", "Bearer "+w.token("kiosk", "payments:read")), 200, "")
	w.token("all", "")

	all := w.auditRows("", 100)
	for i, n := range numbers(all) {
		if n != float64(len(all)-i) {
			t.Fatalf("numbers %v", numbers(all))
		}
	}
	for _, limit := range []int{1, 2, 7} {
		if got := w.auditRows("", limit); !slices.Equal(numbers(got), numbers(all)) {
			t.Errorf("%d a page: %v, want %v", limit, numbers(got), numbers(all))
		}
	}
	at := func(row map[string]any, path ...string) string {
		for _, name := range path[:len(path)-1] {
			row, _ = row[name].(map[string]any)
		}
		text, _ := row[path[len(path)-1]].(string)
		return text
	}
	for query, selects := range map[string]func(map[string]any) bool{
		"&type=payment.create": func(row map[string]any) bool { return at(row, "type") == "payment.create" },
		"&type=payment.*":      func(row map[string]any) bool { return strings.HasPrefix(at(row, "type"), "payment.") },
		"&type=token.issue,payment.capture": func(row map[string]any) bool {
			return at(row, "type") == "token.issue" || at(row, "type") == "payment.capture"
		},
		"&type=nobody.knows":                       func(map[string]any) bool { return false },
		"&outcome=refused":                         func(row map[string]any) bool { return at(row, "outcome") == "refused" },
		"&actor=" + w.vars["client_kiosk"]:         func(row map[string]any) bool { return at(row, "actor", "client_id") == w.vars["client_kiosk"] },
		"&target=" + paid:                          func(row map[string]any) bool { return at(row, "target", "id") == paid },
		"&created_before=" + url.QueryEscape(noon): func(row map[string]any) bool { return at(row, "created_at") < noon[:19]+".000Z" },
		"&created_after=" + url.QueryEscape(noon):  func(row map[string]any) bool { return at(row, "created_at") > noon[:19]+".000Z" },
	} {
		var want []map[string]any
		for _, row := range all {
			if selects(row) {
				want = append(want, row)
			}
		}
		if (len(want) == 0) != (query == "&type=nobody.knows") || len(want) == len(all) {
			t.Errorf("%s selects %d of %d", query, len(want), len(all))
		}
		for _, limit := range []int{1, 100} {
			if got := w.auditRows(query, limit); !slices.Equal(numbers(got), numbers(want)) {
				t.Errorf("%s, %d a page: %v, want %v", query, limit, numbers(got), numbers(want))
			}
		}
	}
	if again := w.auditRows("", 100); len(again) != len(all) {
		t.Errorf("%d entries after the listings, were %d", len(again), len(all))
	}

	// It is about all accounts, and of one organization.
	w.want(w.call("GET", "/v1/audit", "", "Authorization", "Bearer "+w.token("kiosk", "audit:read")), 403, "merchant_account_forbidden")
	w.want(w.call("GET", "/v1/audit", "", "Authorization", "Bearer "+w.token("all", "payments:read")), 403, "scope_missing")
	w.token("all", "")
	cursor := w.get(w.call("GET", "/v1/audit?limit=1&outcome=succeeded", ""), "next_cursor")
	w.want(w.call("GET", "/v1/audit?outcome=denied&cursor="+cursor, ""), 400, "cursor_mismatch")
	other := "Bearer " + w.token("other_all", "")
	w.want(w.call("GET", "/v1/audit?cursor="+cursor, "", "Authorization", other), 400, "cursor_invalid")
	for _, row := range w.want(w.call("GET", "/v1/audit?limit=100", "", "Authorization", other), 200, "").body["data"].([]any) {
		if text := fmt.Sprint(row); strings.Contains(text, w.vars["client_shop"]) || strings.Contains(text, paid) {
			t.Errorf("another organization's entry: %s", text)
		}
	}
}

// Entries are in the order in which Redis took them, their times are those of the
// instances: one whose clock is behind writes a time before that of an older entry.
// A bound on the time selects by what the entry says.
func TestAuditOfClocksThatDiffer(t *testing.T) {
	w := newWorld(t)
	start := w.now()
	w.token("all", "")
	for _, step := range []time.Duration{-8 * time.Second, 40 * time.Second, 20 * time.Second, -15 * time.Second, 30 * time.Second} {
		w.clock.Advance(step)
		w.want(w.call("GET", "/v1/grants/"+w.vars["grant_all"], ""), 200, "")
	}
	all := w.auditRows("", 100)
	if slices.IsSortedFunc(all, func(a, b map[string]any) int {
		return strings.Compare(b["created_at"].(string), a["created_at"].(string))
	}) {
		t.Fatal("the times are in order")
	}
	for bound := -20 * time.Second; bound < 80*time.Second; bound += 2 * time.Second {
		at := start.Add(bound).UTC().Format("2006-01-02T15:04:05.000Z")
		for name, selects := range map[string]func(string) bool{
			"created_before": func(time string) bool { return time < at },
			"created_after":  func(time string) bool { return time > at },
		} {
			var want []float64
			for _, row := range all {
				if selects(row["created_at"].(string)) {
					want = append(want, row["seq"].(float64))
				}
			}
			if got := numbers(w.auditRows("&"+name+"="+at, 2)); !slices.Equal(got, want) {
				t.Errorf("%s=%s: %v, want %v", name, at, got, want)
			}
		}
	}
}

// A page that looks at more than one batch of the record has each entry once, also
// those on both sides of where a batch ends.
func TestAuditPageOfSeveralBatches(t *testing.T) {
	w := newWorld(t)
	w.token("all", "")
	const wanted, batch = "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", 250
	read := func(times int, id string) {
		for range times {
			w.want(w.call("GET", "/v1/payments/"+id, ""), 404, "not_found")
		}
	}
	read(60, wanted)
	read(batch-30, "pay_01ARZ3NDEKTSV4RRFFQ69G5FAW")
	for _, limit := range []int{100, 45} {
		got := numbers(w.auditRows("&target="+wanted, limit))
		once := slices.Compact(slices.Clone(got))
		if len(got) != 60 || len(once) != 60 || !slices.IsSortedFunc(got, func(a, b float64) int { return int(b - a) }) {
			t.Errorf("%d a page: %d entries, %d of them different: %v", limit, len(got), len(once), got)
		}
	}
}

// What cannot be read stands in every page that reaches it, whatever is searched for.
func TestDamagedAuditEntryIsListed(t *testing.T) {
	w := newWorld(t)
	w.token("all", "")
	w.want(w.call("GET", "/v1/grants/"+w.vars["grant_all"], ""), 200, "")
	before := w.auditRows("", 100)
	for key, value := range dump(t, w.redis) {
		if !strings.HasSuffix(key, w.vars["org"]+":audit") || !strings.HasPrefix(value, "stream ") {
			continue
		}
		check(t, command(t, w.redis, "XADD", key, "*", "b", "what nobody has written"))
	}
	for _, query := range []string{"", "&type=grant.read", "&outcome=denied"} {
		rows := w.auditRows(query, 100)
		if len(rows) == 0 || rows[0]["damaged"] != true || rows[0]["object"] != "audit_entry" {
			t.Fatalf("%q lists %v", query, rows)
		}
		if query == "" && len(rows) != len(before)+1 {
			t.Errorf("%d rows, with the damaged one; were %d", len(rows), len(before))
		}
	}
}
