package handlers_test

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// A preview leaves nothing behind: no key, no entry of a stream, no other time
// to live, no place of a consumer group. Not even who asked.
func TestPreviewWritesNothing(t *testing.T) {
	w := newWorldOn(t, redistest.URL(t), newRecorder(t))
	for n := range 5 {
		body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"%d.00","currency":"EUR","payee":"shop.example","capture_method":"automatic"}`, w.vars["eur"], 10+n)
		w.want(w.pay(fmt.Sprint("key", n), body), 201, "")
		w.advance(3 * time.Hour)
	}
	w.token("all", "")
	w.want(w.call("GET", "/v1/merchant-accounts/"+w.vars["eur"], ""), 200, "") // fills the cache
	before, lives := dump(t, w.redis), lifetimes(t, w.redis)
	for _, proposed := range []string{`{}`, `{"cutoff_time":"23:00"}`, `{"time_zone":"Asia/Tokyo","interval":"monthly","calendar":"us_fed","settlement_delay_days":20}`} {
		for _, window := range []string{`null`, `{"from":"2026-03-02T10:00:00Z","to":"2026-03-02T19:00:00Z"}`, `{"from":"2026-01-01T00:00:00Z"}`} {
			r := w.want(w.call("POST", "/v1/cutoffs/preview", fmt.Sprintf(`{"merchant_account_id":%q,"proposed":%s,"window":%s}`, w.vars["eur"], proposed, window)), 200, "")
			if w.get(r, "summary.captures") == "0" {
				t.Errorf("%s sees no captures", window)
			}
		}
	}
	for _, change := range before.changes(dump(t, w.redis)) {
		t.Errorf("wrote %s", change)
	}
	after := lifetimes(t, w.redis)
	for _, key := range slices.Sorted(maps.Keys(lives)) {
		was, is := lives[key], after[key]
		if (was < 0) != (is < 0) || is > was || was-is > (30*time.Second).Milliseconds() {
			t.Errorf("%s expires in %d ms, before in %d", key, is, was)
		}
	}
}

// lifetimes are the times to live of all keys in milliseconds, -1 for ever.
func lifetimes(t testing.TB, url string) map[string]int64 {
	t.Helper()
	all := make(map[string]int64)
	for addr := range strings.SplitSeq(strings.TrimPrefix(url, "redis://"), ",") {
		conn, err := net.DialTimeout("tcp", addr, 20*time.Second)
		must(t, conn, err)
		check(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		r := bufio.NewReader(conn)
		found, err := ask(conn, r, [][]string{{"KEYS", "*"}})
		must(t, found, err)
		for _, key := range words(found[0]) {
			reply, err := ask(conn, r, [][]string{{"PTTL", key}})
			must(t, reply, err)
			ms, err := strconv.ParseInt(fmt.Sprint(reply[0]), 10, 64)
			all[key] = must(t, ms, err)
		}
		conn.Close()
	}
	return all
}

// Every command of a preview is a read, and there are few of them: a page of
// the account's transactions is one script and one pipeline.
func TestPreviewOnlyReads(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startOn(t, wire.URL)
	i.authenticate()
	i.want(i.call("POST", "/v1/payments", `{`+good+`,"capture_method":"automatic"}`, "Idempotency-Key", "k"), 201, "")
	body := `{"merchant_account_id":` + quotedJSON(i.config.MerchantAccounts[0].ID) + `,"proposed":{"cutoff_time":"23:00"}}`
	i.want(i.call("POST", "/v1/cutoffs/preview", body), 200, "")
	wire.Reset()
	i.want(i.call("POST", "/v1/cutoffs/preview", body), 200, "")
	got := wire.Counts()
	// The first one of the window is looked for; authorization, capture and fee
	// are read.
	want := map[string]int{"ZCARD": 1, "ZRANGE": 3, "EVALSHA": 1, "HMGET": 6}
	if !maps.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}
