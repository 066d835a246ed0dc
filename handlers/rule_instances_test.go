package handlers_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
	"tollgate/wasm"
)

// alone is another instance of the service, with an engine of its own too.
func (w *world) alone() *world { return w.aloneWith(rediskv.Options{}) }

// aloneWith is alone with a store of other options.
func (w *world) aloneWith(o rediskv.Options) *world {
	w.t.Helper()
	ctx := context.Background()
	engine, err := wasm.NewEngine(ctx)
	other := *w
	other.rules = must(w.t, engine, err)
	check(w.t, engine.LoadBuiltin(ctx))
	other.tokens = make(map[string]string)
	o.URL, o.Clock = cmp.Or(o.URL, w.redis), w.now
	other.store = openWith(w.t, o)
	other.serve()
	return &other
}

// followed keeps instances up to date, and has the worker's part done, until the
// test ends.
func followed(t *testing.T, instances ...*world) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) // which ends before the cleanup
	var all sync.WaitGroup
	for _, i := range instances {
		all.Go(func() { i.store.Watch(ctx) })
		all.Go(func() { i.server.Follow(ctx) })
	}
	all.Go(func() {
		for ctx.Err() == nil {
			if err := instances[0].work(); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

// ready has the instance load what is in force, and follow no longer than that.
func (w *world) ready() {
	w.t.Helper()
	loaded(w.t, w.server, func() reply { return w.call("GET", "/readyz", "", "Authorization", "") })
}

func loaded(t *testing.T, server *handlers.Server, readiness func() reply) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { server.Follow(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	testkit.Within(t, "the instance is ready", 30*time.Second, func() bool { return readiness().StatusCode == http.StatusOK })
}

const payWide = `{"merchant_account_id":%q,"amount":"100.00","currency":"EUR","payee":"shop.example"}`

// TestActivationsUnderLoad: three instances take payments while activations and
// rollbacks go back and forth. Every payment is priced by exactly one version of
// the rule set, from its creation to its last capture, no client sees an error,
// and every instance follows within two seconds.
func TestActivationsUnderLoad(t *testing.T) {
	w := newWorld(t)
	instances := []*world{w.alone(), w.alone(), w.alone()}
	w.token("all", "")
	for _, i := range instances {
		i.tokens["all "] = w.token("all", "")
	}
	followed(t, instances...)
	set := "/v1/rule-sets/" + w.vars["wide_rules"]
	for n := 1; n <= 4; n++ {
		w.publish(fmt.Sprintf("rule:shop_fee@v%d", n), fmt.Sprintf("%d.5", n))
	}

	var payments sync.Map // id → nothing
	var count atomic.Int64
	done := make(chan struct{})
	var load sync.WaitGroup
	stop := sync.OnceFunc(func() {
		close(done)
		load.Wait()
	})
	defer stop()
	for n, i := range instances {
		load.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-done:
					return
				default:
				}
				r, err := i.try(i.request("POST", "/v1/payments", fmt.Sprintf(payWide, w.vars["wide"]), "Idempotency-Key", fmt.Sprintf("load-%d-%d", n, k), "Authorization", "Bearer "+i.tokens["all "]))
				if !created(t, "a payment", r, err) {
					return
				}
				id, _ := r.body["id"].(string)
				payments.Store(id, nil)
				count.Add(1)
				if k%3 == 0 { // captured later, whatever is in force then
					c, err := i.try(i.request("POST", "/v1/payments/"+id+"/captures", `{"amount":"40.00","final_capture":false}`, "Authorization", "Bearer "+i.tokens["all "]))
					if !created(t, "a capture", c, err) {
						return
					}
				}
			}
		})
	}

	versions := map[int64][]tollgate.RuleRef{}
	account, err := w.store.Account(t.Context(), w.vars["org"], w.vars["wide"])
	versions[1] = must(t, account, err).Rules
	testkit.Within(t, "every instance says that it lives", 30*time.Second, func() bool {
		list, err := w.store.Instances(t.Context())
		return len(must(t, list, err)) == len(instances)
	})
	testkit.Within(t, "payments with the first version", 30*time.Second, func() bool { return count.Load() > 3 || t.Failed() })
	var took []time.Duration
	follow := func(body map[string]any) {
		t.Helper()
		to := int64(body["to_version"].(float64))
		var refs []tollgate.RuleRef
		for _, one := range body["rules"].([]any) {
			m := one.(map[string]any)
			c, err := tollgate.ParseCitation(m["rule"].(string))
			refs = append(refs, tollgate.RuleRef{Rule: must(t, c, err), SHA256: m["sha256"].(string)})
		}
		versions[to] = refs
		start := time.Now()
		for n, i := range instances {
			testkit.Within(t, fmt.Sprintf("instance %d quotes with version %d", n, to), 20*time.Second, func() bool {
				r, err := i.try(i.request("POST", "/v1/quotes", fmt.Sprintf(payWide, w.vars["wide"]), "Authorization", "Bearer "+i.tokens["all "]))
				if err != nil || r.StatusCode != http.StatusOK {
					t.Fatalf("a quote: %v, %s", err, r.text)
				}
				set, _ := r.body["rule_set"].(map[string]any)
				return set["version"] == float64(to)
			})
		}
		took = append(took, time.Since(start))
	}
	w.token("all", "")
	for round := range 8 {
		before := count.Load()
		if round%4 == 3 {
			follow(w.want(w.call("POST", set+"/rollback", ""), 201, "").body)
		} else {
			rule := fmt.Sprintf("rule:shop_fee@v%d", 1+round%4)
			made := w.want(w.call("POST", set+"/activations", fmt.Sprintf(`{"rule":%q,"adds":%t,"merchant_account_ids":[%q]}`, rule, round == 0, w.vars["wide"])), 201, "")
			if total := made.body["instances"].(map[string]any)["total"]; total != float64(3) {
				t.Errorf("%v instances live", total)
			}
			follow(made.body)
		}
		testkit.Within(t, "payments go on", 20*time.Second, func() bool { return count.Load() > before+3 || t.Failed() })
	}
	stop()
	slices.Sort(took) // a machine that stalls is slow now and then, and no more
	if took[len(took)/2] > 2*time.Second && !redistest.RaceDetector {
		t.Errorf("activations took %v to reach every instance", took)
	}

	judge := w.alone()
	used := map[int64]int{}
	payments.Range(func(id, _ any) bool {
		r := w.want(w.call("GET", "/v1/tickets/"+tollgate.TicketOf(id.(string)), ""), 200, "")
		ticket := new(tollgate.Ticket)
		must(t, ticket, json.Unmarshal([]byte(r.text), ticket))
		version := int64(0)
		for v, refs := range versions {
			if slices.Equal(refs, ticket.Evaluations[0].Rules) {
				version = v
			}
		}
		used[version]++
		for _, e := range ticket.Evaluations {
			if version == 0 || !slices.Equal(e.Rules, versions[version]) {
				t.Errorf("%s is priced with %v, no version of the rule set", ticket.ID, e.Rules)
			}
			judge.fetch(e.Rules)
		}
		judge.reprice(ticket)
		return true
	})
	t.Logf("%d payments, by version %v; every instance followed within %s", count.Load(), used, took[len(took)-1])
	if used[1] == 0 || len(used) < 4 {
		t.Errorf("payments by version: %v", used)
	}
}

func created(t *testing.T, what string, r reply, err error) bool {
	if err != nil || r.StatusCode != http.StatusCreated {
		t.Errorf("%s: %v, %s", what, err, r.text)
		return false
	}
	return true
}

// fetch loads published modules into the world's engine, as anybody can who
// wants to run a ticket's rules again.
func (w *world) fetch(rules []tollgate.RuleRef) {
	w.t.Helper()
	for _, ref := range rules {
		if w.rules.Has(ref) {
			continue
		}
		r := w.want(w.call("GET", "/v1/rules/"+tollgate.RuleID(ref.Rule)+"/module", ""), 200, "")
		loaded, err := w.rules.Load(w.t.Context(), ref.Rule, []byte(r.text))
		if must(w.t, loaded, err) != ref {
			w.t.Errorf("the module of %s is %s, not %s", ref.Rule, loaded.SHA256, ref.SHA256)
		}
	}
}

// TestInstanceCannotLoad: an instance that cannot load what an activation names
// says so and is not ready; the others wait for it, and not for ever.
func TestInstanceCannotLoad(t *testing.T) {
	w := newWorld(t)
	ref := w.publish("rule:shop_fee@v1", "7.25") // no other test's, whose module would do
	set := "/v1/rule-sets/" + w.vars["wide_rules"]
	made := w.want(w.call("POST", set+"/activations", `{"rule":"rule:shop_fee@v1","adds":true}`), 201, "")
	w.renameModule(ref, "", ":gone")
	i := w.alone()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { i.server.Follow(ctx); close(ended) }()
	at := set + "/activations/" + made.body["id"].(string)
	testkit.Within(t, "the instance says what it lacks", 30*time.Second, func() bool {
		instances, _ := w.call("GET", at, "").body["instances"].(map[string]any)
		failing, _ := instances["failing"].([]any)
		return len(failing) == 1 && instances["ready"] == float64(0)
	})
	testkit.Within(t, "the instance is not ready", 30*time.Second, func() bool { // which it judges after it has said it
		r := i.call("GET", "/readyz", "", "Authorization", "")
		return r.StatusCode == 503 && r.body["checks"].(map[string]any)["rules"] == "missing"
	})
	w.activated()
	if r := w.call("GET", at, ""); r.body["status"] != "scheduled" {
		t.Errorf("it did not wait: %s", r.text)
	}
	w.renameModule(ref, ":gone", "")
	testkit.Within(t, "the instance is ready again", 30*time.Second, func() bool {
		return i.call("GET", "/readyz", "", "Authorization", "").StatusCode == 200
	})
	w.activated()
	if r := w.call("GET", at, ""); r.body["status"] != "active" {
		t.Errorf("with everything there: %s", r.text)
	}
	cancel()
	<-ended
	list, err := w.store.Instances(t.Context())
	if late := strings.Contains(i.log.String(), "not signed off"); err != nil || (len(list) != 0 && !late) {
		t.Errorf("after its end: %v, %v", list, err)
	}
}

// renameModule moves a module in Redis to where nobody finds it, and back.
func (w *world) renameModule(ref tollgate.RuleRef, from, to string) {
	w.t.Helper()
	for key := range dump(w.t, w.redis) {
		if name, ok := strings.CutSuffix(key, ":module:"+ref.SHA256+from); ok {
			check(w.t, command(w.t, w.redis, "RENAME", key, name+":module:"+ref.SHA256+to))
			return
		}
	}
	w.t.Fatal("no such module")
}
