package handlers_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestChangedCursors: a cursor is a seal. Changed anywhere, cut, extended, of
// another list or of another organization, it is none.
func TestChangedCursors(t *testing.T) {
	w := newWorld(t)
	body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"])
	for n := range 3 {
		w.want(w.pay(fmt.Sprint(n), body), 201, "")
	}
	cursors := make(map[string]string)
	for _, path := range []string{"/v1/events", "/v1/transactions"} {
		cursors[path] = w.get(w.call("GET", path+"?limit=1&merchant_account_id="+w.vars["eur"], ""), "next_cursor")
	}
	for path, good := range cursors {
		refused := func(name, cursor string, headers ...string) {
			t.Helper()
			r := w.call("GET", path+"?cursor="+url.QueryEscape(cursor), "", headers...)
			if r.StatusCode != 400 || r.body["code"] != "cursor_invalid" || r.body["param"] != "cursor" {
				t.Errorf("%s, %s: %d %s\n%s", path, name, r.StatusCode, r.text, cursor)
			}
		}
		for i := range good {
			changed := byte('A')
			if good[i] == changed {
				changed = 'B'
			}
			refused(fmt.Sprint("changed at ", i), good[:i]+string(changed)+good[i+1:])
		}
		for _, n := range []int{1, 2, 3, 4, len(good) / 2, len(good) - 1} {
			refused(fmt.Sprint("cut to ", n), good[:n])
		}
		refused("extended", good+"A")
		refused("padded", good+"=")
		refused("twice", good+good)
		refused("a line break in it", good[:10]+"-"+good[10:])
		refused("other alphabet", strings.NewReplacer("-", "+", "_", "/").Replace(good)+"+")
		for other, cursor := range cursors {
			if other != path {
				refused("of "+other, cursor)
			}
		}
		stranger := "Bearer " + w.token("other_all", "")
		refused("of another organization", good, "Authorization", stranger)
		// Another instance with the same key takes it; so does the same client
		// under another grant, which shows less.
		w.want(w.twin().call("GET", path+"?cursor="+good, ""), 200, "")
		w.want(w.call("GET", path+"?cursor="+good, "", "Authorization", "Bearer "+w.token("eur_only", "")), 200, "")
		w.want(w.call("GET", path+"?cursor="+good, "", "Authorization", "Bearer "+w.token("kiosk", "")), 403, "merchant_account_forbidden")
	}
}

// TestTailing: 20 writers write while readers follow events and page through
// transactions. Each reader sees everything once; events in their order.
func TestTailing(t *testing.T) {
	const writers, each = 20, 6
	w := newWorld(t)
	type reader struct {
		path string
		seen []string
		err  error
	}
	start := w.get(w.call("GET", "/v1/events?types=payment.*", ""), "next_cursor")
	readers := []*reader{
		{path: "/v1/events?cursor=" + start},
		{path: "/v1/events?cursor=" + start + "&limit=1"},
		{path: "/v1/events?cursor=" + start + "&limit=7&wait=1"},
		{path: "/v1/transactions?order=asc&type=authorization&limit=5"},
	}
	var writing, reading sync.WaitGroup
	finished := make(chan struct{})
	for n := range writers {
		requests := make([]func() (reply, error), each)
		for i := range requests {
			body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"])
			req := w.request("POST", "/v1/payments", body, "Idempotency-Key", fmt.Sprint(n, "-", i))
			requests[i] = func() (reply, error) { return w.try(req) }
		}
		writing.Go(func() {
			for _, request := range requests {
				if r, err := request(); err != nil || r.StatusCode != 201 {
					t.Errorf("not written: %v %s", err, r.text)
				}
			}
		})
	}
	for _, r := range readers {
		reading.Go(func() { r.seen, r.err = w.follow(r.path, finished) })
	}
	writing.Wait()
	close(finished)
	reading.Wait()
	for _, r := range readers {
		check(t, r.err)
		distinct := slices.Compact(slices.Sorted(slices.Values(r.seen)))
		if len(r.seen) != writers*each || len(distinct) != len(r.seen) {
			t.Errorf("%s: %d rows, %d of them distinct, of %d", r.path, len(r.seen), len(distinct), writers*each)
		}
		if strings.HasPrefix(r.path, "/v1/events") && !slices.Equal(r.seen, readers[0].seen) {
			t.Errorf("%s: another order than %s", r.path, readers[0].path)
		}
	}
	// Backwards it is the same history.
	for forwards, path := range map[*reader]string{readers[0]: "/v1/events?types=payment.*&order=desc", readers[3]: "/v1/transactions?type=authorization"} {
		backwards, err := w.follow(path+"&limit="+fmt.Sprint(1+rand.IntN(100)), finished)
		check(t, err)
		slices.Reverse(backwards)
		if !slices.Equal(backwards, forwards.seen) {
			t.Errorf("%s: backwards the history is another one than %s", path, forwards.path)
		}
	}
}

// follow reads a list to its end, and on until finished is closed and there is
// nothing more.
func (w *world) follow(path string, finished <-chan struct{}) (ids []string, err error) {
	base, _, _ := strings.Cut(path, "?")
	limit := "20"
	if query, err := url.ParseQuery(path[len(base)+1:]); err == nil && query.Has("limit") {
		limit = query.Get("limit")
	}
	next, after := path, ""
	for {
		if len(ids) > 1000 {
			return ids, fmt.Errorf("%s has no end", path)
		}
		last := false
		select {
		case <-finished:
			last = true
		default:
		}
		r, err := w.try(w.request("GET", next, ""))
		if err != nil || r.StatusCode != 200 {
			return ids, fmt.Errorf("%s: %v %s", next, err, r.text)
		}
		rows := r.body["data"].([]any)
		for _, row := range rows {
			ids = append(ids, row.(map[string]any)["id"].(string))
		}
		more := r.body["has_more"] == true
		if last && !more && len(rows) == 0 {
			return ids, nil
		}
		if cursor, ok := r.body["next_cursor"].(string); ok {
			next = base + "?limit=" + limit + "&cursor=" + cursor
			if more {
				after = next
			}
			continue
		}
		if last { // a list without a tail: this page was the last one
			return ids, nil
		}
		// Read the last page again, without what it already gave.
		ids = ids[:len(ids)-len(rows)]
		if after != "" {
			next = after
		}
	}
}

// TestTailingFromNow: readers begin at the end while writers write. Whatever is
// committed after a reader has its cursor comes after that cursor, and nothing
// that was there before the request does.
func TestTailingFromNow(t *testing.T) {
	const writers, each = 4, 15
	w := newWorld(t)
	body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"])
	var mu sync.Mutex
	var made [writers][]string // payments whose answer has come
	counts := func() (n [writers]int, all int) {
		mu.Lock()
		defer mu.Unlock()
		for i := range made {
			n[i] = len(made[i])
			all += n[i]
		}
		return n, all
	}
	w.token("all", "") // which all of them use
	var writing sync.WaitGroup
	for n := range writers {
		writing.Go(func() {
			for i := range each {
				r, err := w.try(w.request("POST", "/v1/payments", body, "Idempotency-Key", fmt.Sprintf("tail-%d-%d", n, i)))
				id, _ := r.body["id"].(string)
				if err != nil || id == "" {
					t.Errorf("%v %s", err, r.text)
				}
				mu.Lock()
				made[n] = append(made[n], id)
				mu.Unlock()
			}
		})
	}
	type start struct {
		before, after [writers]int // answers that had come when the reader asked, and when it had its cursor
		cursor        string
	}
	var starts []start
	for all := 0; all < writers*each; {
		var s start
		s.before, _ = counts()
		r := w.call("GET", "/v1/events?after=latest&types=payment.authorized", "")
		s.after, all = counts()
		if r.StatusCode != 200 || len(r.body["data"].([]any)) != 0 || r.body["has_more"] != false {
			t.Fatalf("%d %s", r.StatusCode, r.text)
		}
		s.cursor = w.get(r, "next_cursor")
		starts = append(starts, s)
	}
	writing.Wait()
	for _, s := range starts {
		got := map[string]bool{}
		r := w.want(w.call("GET", "/v1/events?limit=100&cursor="+s.cursor, ""), 200, "")
		for _, e := range r.body["data"].([]any) {
			got[e.(map[string]any)["data"].(map[string]any)["payment_id"].(string)] = true
		}
		for n := range made {
			for i, id := range made[n] {
				if i < s.before[n] && got[id] {
					t.Errorf("payment %d of writer %d was there before the cursor was asked for, and comes after it", i, n)
				}
				// The one after those may have been committed on either side.
				if i > s.after[n] && !got[id] {
					t.Errorf("payment %d of writer %d was made after the cursor, and is missed", i, n)
				}
			}
		}
	}
}
