package handlers_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/handlers"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
)

// trips is how often an operation waits for Redis: known, on an instance that knows
// the organization, and has the payment; and on an instance that has never heard of
// either.
type trips struct{ known, first int }

// tripsOf is the table of round trips, which the page of the design has as well.
var tripsOf = map[string]trips{
}

// trip is how long a round trip takes in a bubble.
const trip = 40 * time.Millisecond

// far runs a test of an instance that is a round trip away from the world's Redis
// and has connections to it. It counts how often a request waits.
func (w *world) far(do func(count func(*http.Request) (trips, status int))) {
	w.t.Helper()
	synctest.Test(w.t, func(t *testing.T) {
		i := *w
		i.t = t
		i.store = openWith(t, rediskv.Options{URL: w.redis, Clock: w.service, Dial: redistest.Far(trip).Dial})
		connected(t, i.store)
		server, err := handlers.New(i.config())
		h := must(t, server, err).Handler()
		do(func(r *http.Request) (int, int) {
			begun, answer := time.Now(), httptest.NewRecorder()
			h.ServeHTTP(answer, r.WithContext(t.Context()))
			waited := time.Since(begun)
			if waited%trip != 0 {
				t.Errorf("%s %s waited for %s, which are no round trips", r.Method, r.URL.Path, waited)
			}
			return int(waited / trip), answer.Code
		})
	})
}

// connected opens the connections that one request may use at once.
func connected(t *testing.T, s *store.Store) {
	t.Helper()
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() { check(t, s.Ping(t.Context())) })
	}
	asking.Wait()
}

// routeOf is the route that answers an address.
func routeOf(t *testing.T, method, path string) string {
	t.Helper()
	for _, r := range new(handlers.Server).Routes() {
		pattern := regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllString(r.Path, "[^/]+")
		if r.Method == method && regexp.MustCompile("^"+pattern+"$").MatchString(path) {
			return r.Method + " " + r.Path
		}
	}
	t.Fatalf("%s %s is no route", method, path)
	return ""
}

// searching are the parameters that no index has: who names one has Redis looked
// through until the page is full.
var searching = []string{"payee", "type", "currency", "reference", "state", "event_type"}

// TestRoundTrips holds every operation to the table. Time stands in a bubble while
// anything computes, so what passes is what was waited for: exactly so many round
// trips, and one for what is on its way at once.
func TestRoundTrips(t *testing.T) {
	measured := make(map[string]trips)
	w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	for _, o := range w.operations() {
		route := routeOf(t, o.method, o.path)
		request := w.request(o.method, o.path, o.text(nil), o.headers()...)
		w.far(func(count func(*http.Request) (int, int)) {
			n, status := count(request)
			if status >= 300 && o.id != "readReadiness" {
				t.Errorf("%s: %d", route, status)
			}
			was := measured[route]
			measured[route] = trips{was.known, max(was.first, n)}
		})
	}
	w = newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	for _, o := range w.operations() {
		route := routeOf(t, o.method, o.path)
		var asked []*http.Request
		ask := func(method, path, body string, headers ...string) {
			asked = append(asked, w.request(method, path, body, headers...))
		}
		ask("POST", "/v1/quotes", `{`+good+`,"merchant_account_id":"`+w.vars["eur"]+`"}`)
		ask("GET", "/v1/merchant-accounts", "")
		ask("POST", "/oauth2/token", tokenForm(w.assertion("kiosk")).Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded")
		if strings.HasPrefix(o.pathID, "pay_") {
			ask("GET", "/v1/payments/"+o.pathID, "")
		}
		warming := len(asked)
		ask(o.method, o.path, o.text(nil), o.headers()...)
		var names []string
		for _, q := range o.query {
			ask(o.method, o.path+"?"+q.name+"="+q.good, o.text(nil), o.headers()...)
			names = append(names, q.name)
		}
		w.far(func(count func(*http.Request) (int, int)) {
			for i, r := range asked {
				n, status := count(r)
				if status >= 300 && o.id != "readReadiness" && (i <= warming || o.query[i-warming-1].good != "") {
					t.Errorf("%s %s: %d", r.Method, r.URL, status)
				}
				if i < warming || (i > warming && slices.Contains(searching, names[i-warming-1])) {
					continue
				}
				was := measured[route]
				measured[route] = trips{max(was.known, n), was.first}
				t.Logf("%s %s: %d", route, r.URL.RawQuery, n)
			}
		})
	}
	for _, r := range new(handlers.Server).Routes() {
		route := r.Method + " " + r.Path
		want, ok := tripsOf[route]
		if got := measured[route]; !ok || got != want {
			t.Errorf("%s waits %d times for Redis, and %d times at first; the table has %v", route, got.known, got.first, want)
		}
	}
	if len(tripsOf) != len(measured) {
		t.Errorf("%d operations were measured; the table has %d", len(measured), len(tripsOf))
	}
}

// The page of the design has the table, and nothing else.
func TestRoundTripsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/design.md")
	_, section, ok := strings.Cut(string(must(t, page, err)), "\n## Round trips\n")
	if !ok {
		t.Fatal("the page has no section of round trips")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	said := make(map[string]trips)
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /\\S+)` \\| (\\d+) \\| (\\d+) \\|").FindAllStringSubmatch(section, -1) {
		known, _ := strconv.Atoi(m[2])
		first, _ := strconv.Atoi(m[3])
		said[m[1]] = trips{known, first}
	}
	for _, route := range slices.Sorted(maps.Keys(tripsOf)) {
		if said[route] != tripsOf[route] {
			t.Errorf("%s: the test has %v, and the page %v", route, tripsOf[route], said[route])
		}
		delete(said, route)
	}
	for route := range said {
		t.Errorf("the page has %s, which is no operation", route)
	}
}
