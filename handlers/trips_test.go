package handlers_test

import (
	"context"
	"crypto/rand"
	"maps"
	"net"
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
	"POST /oauth2/token":                                                  {1, 5},
	"POST /oauth2/revoke":                                                 {1, 4},
	"POST /oauth2/introspect":                                             {1, 5},
	"GET /.well-known/jwks.json":                                          {0, 0},
	"GET /.well-known/oauth-authorization-server":                         {0, 0},
	"GET /v1/organizations/{organization_id}":                             {1, 2},
	"GET /v1/legal-entities/{legal_entity_id}":                            {1, 2},
	"GET /v1/merchant-accounts/{merchant_account_id}":                     {1, 2},
	"GET /v1/merchant-accounts":                                           {4, 6},
	"POST /v1/clients":                                                    {5, 6},
	"GET /v1/clients":                                                     {3, 4},
	"GET /v1/clients/{client_id}":                                         {1, 2},
	"PATCH /v1/clients/{client_id}":                                       {3, 4},
	"POST /v1/clients/{client_id}/keys":                                   {3, 4},
	"DELETE /v1/clients/{client_id}/keys/{kid}":                           {3, 4},
	"POST /v1/grants":                                                     {3, 4},
	"GET /v1/grants":                                                      {3, 4},
	"GET /v1/grants/{grant_id}":                                           {1, 2},
	"POST /v1/grants/{grant_id}/revoke":                                   {3, 4},
	"GET /v1/perimeters":                                                  {5, 6},
	"GET /v1/perimeters/{perimeter_id}":                                   {4, 5},
	"POST /v1/quotes":                                                     {0, 2},
	"POST /v1/payments":                                                   {1, 3},
	"GET /v1/payments":                                                    {2, 3},
	"GET /v1/payments/{payment_id}":                                       {1, 2},
	"POST /v1/payments/{payment_id}/captures":                             {1, 4},
	"POST /v1/payments/{payment_id}/cancel":                               {1, 3},
	"POST /v1/payments/{payment_id}/reviews":                              {1, 3},
	"POST /v1/payments/{payment_id}/refunds":                              {1, 4},
	"GET /v1/payments/{payment_id}/refunds":                               {2, 3},
	"GET /v1/refunds/{refund_id}":                                         {2, 3},
	"GET /v1/transactions":                                                {2, 3},
	"GET /v1/tickets/{ticket_id}":                                         {1, 2},
	"POST /v1/cutoffs/preview":                                            {5, 7},
	"GET /v1/payouts":                                                     {2, 3},
	"GET /v1/payouts/{payout_id}":                                         {1, 2},
	"POST /v1/payouts/{payout_id}/release":                                {8, 9},
	"POST /v1/exports/preview":                                            {4, 5},
	"GET /v1/exports":                                                     {2, 3},
	"GET /v1/exports/{job_id}":                                            {1, 2},
	"GET /v1/exports/{job_id}/file":                                       {4, 5},
	"DELETE /v1/exports/{job_id}":                                         {4, 5},
	"GET /v1/audit":                                                       {1, 2},
	"GET /v1/audit/checkpoints":                                           {1, 2},
	"GET /v1/audit/leaves":                                                {4, 5},
	"GET /v1/audit/proofs/{audit_entry_id}":                               {2, 3},
	"GET /v1/events":                                                      {1, 2},
	"GET /v1/events/{event_id}":                                           {1, 2},
	"POST /v1/webhooks":                                                   {2, 4},
	"GET /v1/webhooks":                                                    {2, 3},
	"GET /v1/webhooks/{webhook_id}":                                       {1, 2},
	"PATCH /v1/webhooks/{webhook_id}":                                     {2, 4},
	"DELETE /v1/webhooks/{webhook_id}":                                    {2, 3},
	"POST /v1/webhooks/{webhook_id}/secrets":                              {2, 3},
	"POST /v1/webhooks/{webhook_id}/test":                                 {2, 3},
	"POST /v1/webhooks/{webhook_id}/recoveries":                           {3, 4},
	"GET /v1/webhooks/{webhook_id}/recoveries/{recovery_id}":              {1, 2},
	"GET /v1/webhooks/{webhook_id}/deliveries":                            {2, 3},
	"GET /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/attempts":     {2, 3},
	"POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replays":     {3, 4},
	"GET /v1/sandbox/clock":                                               {0, 1},
	"POST /v1/sandbox/clock":                                              {1, 2},
	"POST /v1/rules":                                                      {4, 5},
	"GET /v1/rules":                                                       {2, 3},
	"GET /v1/rules/{rule_id}":                                             {1, 2},
	"GET /v1/rules/{rule_id}/module":                                      {2, 3},
	"POST /v1/rule-sets/{rule_set_id}/activations":                        {6, 7},
	"GET /v1/rule-sets/{rule_set_id}/activations":                         {3, 4},
	"GET /v1/rule-sets/{rule_set_id}/activations/{activation_id}":         {2, 3},
	"POST /v1/rule-sets/{rule_set_id}/activations/{activation_id}/cancel": {3, 4},
	"POST /v1/rule-sets/{rule_set_id}/rollback":                           {9, 10}, // what its accounts have beside their documents
	"POST /v1/shadows":                                                    {3, 5},
	"GET /v1/shadows":                                                     {3, 3},
	"GET /v1/shadows/{shadow_id}":                                         {1, 2},
	"POST /v1/shadows/{shadow_id}/stop":                                   {3, 4},
	"GET /v1/shadows/{shadow_id}/divergences":                             {2, 3},
	"GET /openapi.json":                                                   {0, 0},
	"GET /healthz":                                                        {0, 0},
	"GET /readyz":                                                         {0, 0},
}

// trip is how long a round trip takes in a bubble.
const trip = 40 * time.Millisecond

// far runs a test of an instance in a bubble; count says how often a request waits.
func (w *world) far(do func(count func(*http.Request) int)) {
	w.t.Helper()
	synctest.Test(w.t, func(t *testing.T) { do(w.distant(t)) })
}

// distant is an instance in a bubble that is a round trip away from the world's Redis,
// and has connections to it. What it answers may be refused with a status.
func (w *world) distant(t *testing.T, refused ...int) (count func(*http.Request) int) {
	ask := w.distantWith(t, rediskv.Options{Dial: redistest.Far(trip).Dial}, refused...)
	return func(r *http.Request) int {
		n, _ := ask(r)
		return n
	}
}

// distantWith is distant for an instance of other options; it gives the headers of an
// answer as well.
func (w *world) distantWith(t *testing.T, o rediskv.Options, refused ...int) (ask func(*http.Request) (int, http.Header)) {
	i := *w
	i.t = t
	o.URL, o.Clock = w.redis, w.service
	i.store = openWith(t, o)
	connected(t, i.store)
	look, cancel := context.WithTimeout(t.Context(), 3*trip) // once
	defer cancel()
	i.store.FollowReplica(look)
	server, err := handlers.New(i.config())
	h := must(t, server, err).Handler()
	return func(r *http.Request) (int, http.Header) {
		begun, answer := time.Now(), httptest.NewRecorder()
		h.ServeHTTP(answer, r.WithContext(t.Context()))
		waited := time.Since(begun)
		if waited%trip != 0 {
			t.Errorf("%s %s waited for %s, which are no round trips", r.Method, r.URL.Path, waited)
		}
		// Nobody follows the rules here, so it is not ready.
		if answer.Code >= 300 && !slices.Contains(refused, answer.Code) && r.URL.Path != "/readyz" {
			t.Errorf("%s %s: %d %s", r.Method, r.URL, answer.Code, answer.Body)
		}
		return int(waited / trip), answer.Header()
	}
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
// through until the page is full. Times have their own test.
var searching = []string{"payee", "type", "currency", "reference", "state", "event_type", "created_after", "created_before"}

// TestRoundTrips holds every operation to the table. Time stands in a bubble while
// anything computes, so what passes is what was waited for: exactly so many round
// trips, and one for what is on its way at once.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	measured := make(map[string]trips)
	w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	for _, o := range w.operations() {
		if o.id == "readExportFile" { // what decompresses files is made once, and not in a bubble
			w.want(w.call(o.method, o.path, ""), 200, "")
		}
		w.far(func(count func(*http.Request) int) {
			route, n := routeOf(t, o.method, o.path), count(w.request(o.method, o.path, o.text(nil), o.headers()...))
			measured[route] = trips{first: max(measured[route].first, n)}
		})
	}
	w = newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	operations := w.operations()
	payout := operations[slices.IndexFunc(operations, func(o *operation) bool { return o.id == "readPayout" })].pathID
	for _, o := range operations {
		known, asked := append(w.acquaintances(o), w.request("GET", "/v1/payouts/"+payout, "")), w.variants(o, payout)
		w.far(func(count func(*http.Request) int) {
			for _, r := range known {
				count(r)
			}
			route := routeOf(t, o.method, o.path)
			for _, r := range asked {
				measured[route] = trips{max(measured[route].known, count(r)), measured[route].first}
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

// TestManyAtADistance: 256 callers who pay at once wait for Redis and for nothing else, so
// that a region that is 40 ms away from Redis makes 6,400 payments a second.
func TestManyAtADistance(t *testing.T) {
	t.Parallel()
	const callers, each = 256, 4
	w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	w.token("all", "")
	w.far(func(count func(*http.Request) int) {
		pay := func(times int) (waited time.Duration) {
			begun := time.Now()
			var paying sync.WaitGroup
			for range callers {
				var requests []*http.Request
				for range times {
					requests = append(requests, w.request("POST", "/v1/payments", `{"merchant_account_id":"`+w.vars["eur"]+`",`+good+`}`, "Idempotency-Key", rand.Text()))
				}
				paying.Go(func() {
					for _, r := range requests {
						count(r)
					}
				})
			}
			paying.Wait()
			return time.Since(begun)
		}
		pay(1) // connections are made
		if waited := pay(each); waited > each*trip*10/9 {
			t.Errorf("%d payments of %d callers took %s, and a round trip takes %s", callers*each, callers, waited, trip)
		}
	})
}

// With a replica nearby, what it may answer waits for the primary never, at first
// contact neither; everything else as often as without.
func TestRoundTripsNearAReplica(t *testing.T) {
	t.Parallel()
	const replica = "replica.test:6379"
	near := make(map[string]bool)
	for _, first := range []bool{false, true} {
		w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
		_, primary, _ := strings.Cut(w.redis, "://")
		primary, _, _ = strings.Cut(primary, "/")
		o := rediskv.Options{Replica: "redis://" + replica, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == replica {
				return redistest.Far(0).Dial(ctx, network, primary)
			}
			return redistest.Far(trip).Dial(ctx, network, address)
		}}
		for _, of := range w.operations() {
			if of.id == "readExportFile" {
				w.want(w.call(of.method, of.path, ""), 200, "")
			}
			route, known := routeOf(t, of.method, of.path), w.acquaintances(of)
			synctest.Test(t, func(t *testing.T) {
				ask := w.distantWith(t, o)
				for _, r := range known {
					if !first {
						ask(r)
					}
				}
				n, answer := ask(w.request(of.method, of.path, of.text(nil), of.headers()...))
				most := tripsOf[route].known
				if first {
					most = tripsOf[route].first
				}
				if answer.Get("Tollgate-Served-By") != "" {
					near[route], most = true, 0
					if by := answer.Get("Tollgate-Served-By"); by != "replica" {
						t.Errorf("%s is served by the %s", route, by)
					}
				}
				if n > most {
					t.Errorf("%s waits %d times for the primary (first %v), at most %d", route, n, first, most)
				}
			})
		}
	}
	if len(near) != 25 { // those of interface §4.6
		t.Errorf("%d operations are answered by the replica: %v", len(near), slices.Sorted(maps.Keys(near)))
	}
}

// acquaintances are requests after which an instance knows the organization and what
// an operation is about.
func (w *world) acquaintances(o *operation) []*http.Request {
	list := []*http.Request{
		w.request("POST", "/v1/quotes", `{`+good+`,"merchant_account_id":"`+w.vars["eur"]+`"}`),
		w.request("GET", "/v1/merchant-accounts", ""),
		w.request("POST", "/oauth2/token", tokenForm(w.assertion("kiosk")).Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"),
	}
	if strings.HasPrefix(o.pathID, "pay_") {
		list = append(list, w.request("GET", "/v1/payments/"+o.pathID, ""))
	}
	return list
}

// variants are an operation's request, and that with each of its query parameters.
func (w *world) variants(o *operation, payout string) []*http.Request {
	list := []*http.Request{w.request(o.method, o.path, o.text(nil), o.headers()...)}
	for _, q := range o.query {
		switch q.name {
		case "cursor": // which it may not have
			q.good, _ = w.call(o.method, o.path+"?limit=1", "").body["next_cursor"].(string)
		case "payout_id":
			q.good = payout
		}
		if q.good != "" && !slices.Contains(searching, q.name) {
			list = append(list, w.request(o.method, o.path+"?"+q.name+"="+q.good, o.text(nil), o.headers()...))
		}
	}
	return list
}

// Lists between times are as long on their way as others: the places of the times in
// the log are found with the members of the index. Of a log that was written by
// another clock, as a sandbox's is, they are no bounds, and there is one trip more.
func TestRoundTripsBetweenTimes(t *testing.T) {
	w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	ask := func(apart int) {
		t.Helper()
		for n := range 3 {
			w.want(w.pay(strconv.Itoa(apart)+strconv.Itoa(n), `{`+good+`,"merchant_account_id":"`+w.vars["eur"]+`"}`), 201, "")
		}
		times := "?created_after=" + w.now().Add(-time.Hour).Format(time.RFC3339) + "&created_before=" + w.now().Add(time.Hour).Format(time.RFC3339)
		for _, list := range []string{"/v1/transactions", "/v1/payments", "/v1/payouts"} {
			for _, order := range []string{"asc", "desc"} {
				known := w.acquaintances(&operation{})
				asked := w.request("GET", list+times+"&order="+order, "")
				w.far(func(count func(*http.Request) int) {
					for _, r := range known {
						count(r)
					}
					if n := count(asked); n > tripsOf["GET "+list].known+apart {
						t.Errorf("%s: %d round trips", asked.URL, n)
					}
				})
			}
		}
	}
	w.clock.Set(time.Now()) // where the log of events is, by the clock of Redis
	ask(0)
	w.clock.Set(time.Now().Add(30 * 24 * time.Hour))
	clear(w.tokens)
	ask(1)
}

// A copy that another instance has made old costs the trips that the page says, and so
// does a refusal, which is decided again.
func TestRoundTripsOfAnOldCopy(t *testing.T) {
	w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	id := w.get(w.want(w.pay("one", `{`+good+`,"merchant_account_id":"`+w.vars["budgeted"]+`"}`), 201, ""), "id")
	known := func() []*http.Request {
		quote := w.request("POST", "/v1/quotes", `{`+good+`,"merchant_account_id":"`+w.vars["budgeted"]+`"}`)
		return append(w.acquaintances(&operation{pathID: id}), quote)
	}
	ones, others := known(), known()
	step := func(path, body, key string) *http.Request {
		return w.request("POST", "/v1/payments/"+id+path, body, "Idempotency-Key", key)
	}
	capture := func(key string) *http.Request {
		return step("/captures", `{"amount":"1.00","final_capture":false}`, key)
	}
	first, second, third, repeated, refund, refused := capture("1"), capture("2"), capture("3"), capture("3"), step("/refunds", `{"amount":"1.00"}`, "4"), step("/refunds", `{"amount":"9.00"}`, "5")
	synctest.Test(t, func(t *testing.T) {
		one, other := w.distant(t, http.StatusUnprocessableEntity), w.distant(t)
		for i := range ones {
			one(ones[i])
			other(others[i])
		}
		for _, c := range []struct {
			what string
			got  int
			want int
		}{
			{"a copy", other(first), 1},
			{"an old copy", one(second), 3},
			{"the copy of what it wrote", one(third), 1},
			{"a repeat: what it showed is read, audited", one(repeated), 3},
			{"a refund that a budget counts", one(refund), 1},
			{"a refusal: read, no earlier answer, audited", one(refused), 3},
		} {
			if c.got != c.want {
				t.Errorf("%s: %d round trips, want %d", c.what, c.got, c.want)
			}
		}
	})
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
