package handlers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// following has an instance follow until the test ends, or until it is told.
func (w *world) following() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	all.Go(func() { w.store.Watch(ctx) })
	all.Go(func() { w.server.Follow(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	w.t.Cleanup(stop)
	return stop
}

// readiness is what /readyz says: its status, of the rules, and those that fail.
func (w *world) readiness() string {
	w.t.Helper()
	r := w.call("GET", "/readyz", "", "Authorization", "")
	checks, _ := r.body["checks"].(map[string]any)
	return fmt.Sprint(r.StatusCode, " ", checks["rules"], " ", r.body["failing_rules"])
}

func (w *world) says(want string) {
	w.t.Helper()
	testkit.Within(w.t, "readiness is "+want, 30*time.Second, func() bool { return w.readiness() == want })
}

// force puts a rule in force for the account wide, and returns its module.
func (w *world) force(rule, percentage string) tollgate.RuleRef {
	w.t.Helper()
	ref := w.publish(rule, percentage)
	made := w.want(w.call("POST", "/v1/rule-sets/"+w.vars["wide_rules"]+"/activations", fmt.Sprintf(`{"rule":%q,"adds":true}`, rule)), 201, "")
	w.activated()
	r := w.call("GET", "/v1/rule-sets/"+w.vars["wide_rules"]+"/activations/"+w.get(made, "id"), "")
	if r.body["status"] != "active" {
		w.t.Fatal(r.text)
	}
	return ref
}

// An instance that lacks what an activation names is not ready, and that does
// not change when the activation takes effect without it.
func TestInstanceLacksWhatIsInForce(t *testing.T) {
	t.Parallel() // it waits most of its time
	w := newWorld(t)
	ref := w.publish("rule:shop_fee@v1", "7.31") // no other test's, whose module would do
	at := "/v1/rule-sets/" + w.vars["wide_rules"] + "/activations"
	made := w.want(w.call("POST", at, `{"rule":"rule:shop_fee@v1","adds":true}`), 201, "")
	w.renameModule(ref, "", ":gone")
	var due atomic.Bool // the activation takes effect behind the next poll, and what is in force is long to read
	activated, release := make(chan error, 1), make(chan struct{})
	released := sync.OnceFunc(func() { close(release) })
	i := w.aloneWith(rediskv.Options{Observe: func(operation string, _ time.Duration, _ error) {
		switch {
		case operation == "poll" && due.CompareAndSwap(true, false):
			activated <- w.work()
		case operation == "read_accounts" && len(activated) > 0:
			<-release
		}
	}})
	i.following()
	t.Cleanup(released) // before the instance is waited for
	const lacks = "503 missing 1"
	i.says(lacks)
	w.advance(tollgate.InstanceGrace)
	due.Store(true)
	testkit.Within(t, "the activation takes effect", 30*time.Second, func() bool { return len(activated) > 0 })
	if r := w.call("GET", at+"/"+w.get(made, "id"), ""); r.body["status"] != "active" {
		t.Fatal(r.text)
	}
	// It tries again with each look.
	said := func() tollgate.Instant {
		list, err := w.store.Instances(t.Context())
		if must(t, list, err); len(list) == 0 { // it was long silent
			return 0
		}
		return list[0].SaidAt
	}
	looks := func(when string) {
		t.Helper()
		for range 3 { // the first may have begun before
			before := max(said(), tollgate.At(i.now()))
			i.clock.Advance(time.Millisecond)
			testkit.Within(t, "it looks again", 30*time.Second, func() bool { return said() > before })
			if got := i.readiness(); got != lacks {
				t.Fatalf("%s: %s", when, got)
			}
		}
	}
	looks("before it has read what is in force")
	check(t, <-activated)
	released()
	testkit.Within(t, "the instance has seen the change", 30*time.Second, func() bool {
		if got := i.readiness(); got != lacks {
			t.Fatalf("while it reads what is in force: %s", got)
		}
		account, err := i.store.Account(t.Context(), w.vars["org"], w.vars["wide"])
		return err == nil && account.RuleSet.Version == 2
	})
	looks("after the activation")
	w.renameModule(ref, ":gone", "")
	// The clock may have moved while it tried: the longer that took, the longer it
	// waits before it tries again.
	testkit.Within(t, "the instance is ready again", 30*time.Second, func() bool {
		w.advance(tollgate.InstanceGrace)
		now := tollgate.At(i.now())
		testkit.Within(t, "it looks again", 30*time.Second, func() bool { return said() >= now })
		return i.readiness() == "200 ok 0"
	})
}

// A new instance is ready when it has what is in force, before anybody asks.
func TestNewInstanceLoadsWhatIsInForce(t *testing.T) {
	w := newWorld(t)
	ref := w.force("rule:shop_fee@v1", "7.32")
	i := w.alone()
	if got := i.readiness(); got != "503 loading 0" {
		t.Errorf("before it follows: %s", got)
	}
	i.following()
	i.says("200 ok 0")
	if !i.rules.Has(ref) {
		t.Error("it is ready without the module")
	}

	// One that starts without the module says which, and is not ready.
	w.renameModule(ref, "", ":gone")
	j := w.alone()
	j.following()
	j.says("503 missing 1")
	if r := j.call("GET", "/readyz", "", "Authorization", ""); strings.Contains(r.text, "shop_fee") || !strings.Contains(j.log.String(), `"msg":"failing rules","rules":"rule:shop_fee@v1"`) {
		t.Errorf("anybody is told %s, or the log does not name the rule", r.text)
	}
	if got := i.readiness(); got != "200 ok 0" {
		t.Errorf("the instance that has it: %s", got)
	}

	// What operators put in force is loaded as well.
	next := w.publish("rule:other_fee@v1", "7.33")
	w.ruleSet("eur", []string{"other_fee@v1"})
	testkit.Within(t, "it loads what was provisioned", 30*time.Second, func() bool { return i.rules.Has(next) })
}

// What no instance can load is the rule's fault: it fails its own payments, and
// all instances serve the others.
func TestNobodyCanLoad(t *testing.T) {
	w := newWorld(t)
	ref := w.force("rule:shop_fee@v1", "7.34")
	w.renameModule(ref, "", ":gone")
	one, two := w.alone(), w.alone()
	stop := one.following()
	one.says("503 missing 1") // it cannot know better
	two.following()
	for _, i := range []*world{one, two} {
		i.says("200 ok 1")
		i.want(i.call("POST", "/v1/quotes", fmt.Sprintf(payWide, w.vars["wide"])), 503, "rule_failed")
	}
	stop()
	two.says("503 missing 1")
}

// A rule that cannot be loaded fails as one that traps: it is counted, and
// observed with its citation.
func TestLoadFailureIsNoted(t *testing.T) {
	w := newWorld(t)
	ref := w.force("rule:shop_fee@v1", "7.35")
	w.renameModule(ref, "", ":gone")
	i := w.alone()
	i.serveWith(func(*handlers.Config) {})
	var mu sync.Mutex
	observed := 0
	i.rules.Observe = func(of tollgate.RuleRef, _ time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		if e, ok := err.(*tollgate.Error); ok && e.Code == tollgate.CodeRuleFailed && of == ref {
			observed++
		}
	}
	for n := range 5 {
		i.want(i.call("POST", "/v1/payments", fmt.Sprintf(payWide, w.vars["wide"]), "Idempotency-Key", fmt.Sprint("n", n)), 503, "rule_failed")
	}
	if got := i.readiness(); !strings.HasSuffix(got, " 1") {
		t.Errorf("after five payments: %s", got)
	}
	mu.Lock()
	if observed != 5 {
		t.Errorf("observed %d times", observed)
	}
	mu.Unlock()
	if got := i.server.FailingRules(); len(got) != 1 || got["published"] != 1 {
		t.Errorf("%v does not count it, or names a tenant's rule", got)
	}
}

// An instance that is loading lives: it says so before and meanwhile, lacks the
// rule until it has it, and activations wait for it.
func TestLoadingInstanceIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	at := "/v1/rule-sets/" + w.vars["wide_rules"] + "/activations"
	w.publish("rule:shop_fee@v1", "7.36")
	made := w.want(w.call("POST", at, `{"rule":"rule:shop_fee@v1","adds":true}`), 201, "")

	release := make(chan struct{})
	released := sync.OnceFunc(func() { close(release) })
	t.Cleanup(released)
	i := w.aloneWith(rediskv.Options{Observe: func(operation string, _ time.Duration, _ error) {
		if operation == "read_module" {
			<-release // a module that takes long
		}
	}})
	i.following()
	t.Cleanup(released) // before the instance is waited for
	saidAt := func() (at tollgate.Instant) {
		list, err := w.store.Instances(t.Context())
		if must(t, list, err); len(list) == 1 {
			at = list[0].SaidAt
		}
		return at
	}
	testkit.Within(t, "it says that it lives", 30*time.Second, func() bool { return saidAt() > 0 })
	first := saidAt()
	w.advance(tollgate.InstanceGrace - time.Second)
	testkit.Within(t, "it goes on saying so", 30*time.Second, func() bool { return saidAt() > first })
	w.activated()
	r := w.call("GET", at+"/"+w.get(made, "id"), "")
	if r.body["status"] != "scheduled" || fmt.Sprint(r.body["instances"]) != "map[failing:[] ready:0 total:1]" {
		t.Errorf("while it loads: %s", r.text)
	}
	if got := i.readiness(); got != "503 loading 0" {
		t.Errorf("while it loads: %s", got)
	}
	released()
	i.says("200 ok 0")
	w.activated()
	if r := w.call("GET", at+"/"+w.get(made, "id"), ""); r.body["status"] != "active" {
		t.Errorf("once it has it: %s", r.text)
	}
}

// More may be in force than an instance keeps. It loads no more than that, is
// ready, and loads the others when they are asked for.
func TestMoreInForceThanKept(t *testing.T) {
	w := newWorld(t)
	var refs []tollgate.RuleRef
	list := []string{"card_fee@v1"}
	for n := range 5 {
		name := fmt.Sprintf("many%d_fee", n)
		refs = append(refs, w.publish("rule:"+name+"@v1", fmt.Sprintf("8.4%d", n)))
		list = append(list, name+"@v1")
	}
	w.ruleSet("wide", list)
	i := w.alone()
	i.server.LoadAhead(3)
	i.following()
	i.says("200 ok 0")
	has := func() int {
		return len(slices.DeleteFunc(slices.Clone(refs), func(r tollgate.RuleRef) bool { return !i.rules.Has(r) }))
	}
	if n := has(); n != 3 {
		t.Errorf("%d are loaded", n)
	}
	i.want(i.call("POST", "/v1/quotes", fmt.Sprintf(payWide, w.vars["wide"])), 200, "")
	if n := has(); n != 5 {
		t.Errorf("%d are loaded after a quote", n)
	}
}

// A Redis that is away when an instance begins is asked again; until then the
// instance is not ready.
func TestInForceIsReadAgain(t *testing.T) {
	t.Parallel() // it waits most of its time
	server := redistest.Single(t)
	w := newWorldOn(t, server.URL, newRecorder(t))
	ref := w.force("rule:shop_fee@v1", "7.37")
	wire := redistest.Proxy(t, server.URL)
	i := w.aloneWith(rediskv.Options{URL: wire.URL, Timeout: rediskv.OperationTimeout})
	wire.Refuse()
	i.following()
	testkit.Within(t, "it has looked in vain", 20*time.Second, func() bool { return strings.Contains(i.log.String(), "rules cannot be followed") })
	if got := i.readiness(); got != "503 loading 0" {
		t.Errorf("without Redis: %s", got)
	}
	wire.Accept()
	i.says("200 ok 0")
	if !i.rules.Has(ref) {
		t.Error("it is ready without the module")
	}
}
