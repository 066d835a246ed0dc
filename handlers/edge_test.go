package handlers_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/edge/edgetest"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// notAtTheEdge are the steps that need what an object has not, as they stand in
// their conversation. Each must fail there; one that is native passes against the
// server of this process, which is beside it.
var notAtTheEdge = []struct {
	conversation, step, reason string
	native                     bool
	holds                      string // of several such steps, those whose answer is to hold this
}{
	{"headers", "GET /v1/events?limit=1 < 400 parameter_invalid Traceparent", "a Worker gets a header that stands twice as one", true, ""},
	{"headers", "POST /v1/payments < 400 parameter_invalid Content-Type", "a Worker gets a header that stands twice as one", true, ""},
	{"payouts", "POST /v1/sandbox/clock < 200", "only the sandbox has a clock that moves", true, ""},
	{"payouts", "GET /v1/sandbox/clock < 200", "only the sandbox has a clock that moves", true, ""},
	{"payouts", "POST /v1/sandbox/clock < 400 parameter_invalid to", "only the sandbox has a clock that moves", true, ""},
	{"payouts", "POST /v1/sandbox/clock < 400 parameter_invalid advance", "only the sandbox has a clock that moves", true, ""},
	{"payouts", "POST /v1/sandbox/clock < 400 parameter_missing advance", "only the sandbox has a clock that moves", true, ""},
	{"rules", "POST /v1/rule-sets/$wide_rules/activations < 201", "the object is an instance too, and counts", false, `"instances":{`},
	{"rules", "GET /v1/rule-sets/$wide_rules/activations/$act < 200", "the object is an instance too, and counts", false, `"instances":{`},
	{"service", "GET /readyz < 503", "it has no moment of loading: its first answer comes when it is ready", true, ""},
	{"service", "GET /readyz?for=quotes < 503", "it has no moment of loading: its first answer comes when it is ready", true, ""},
	{"service", "! drain", "a runtime ends an object at once, not in steps", true, ""},
	{"tokens", "POST /v1/quotes < 200", "its loops run, so it hears of a change by itself", false, ""},
}

// atTheEdge is the service on workerd, for a world.
type atTheEdge struct {
	*edgetest.Runtime
	native string        // the URL of the server of this process
	ahead  time.Duration // of its monotonic clock, what was jumped over
}

// newEdgeWorld is a world whose requests workerd answers. What an object has not,
// processes that examine a rule, the server of this process does, as it would of a
// deployment.
func newEdgeWorld(t *testing.T, w *world) *world {
	t.Helper()
	w.edge = &atTheEdge{native: w.url, Runtime: edgetest.StartHarness(t,
		"TOLLGATE_REDIS_URL="+w.redis, "TOLLGATE_ISSUER="+issuer, "TOLLGATE_SIGNING_KEY="+string(w.signing),
		"TOLLGATE_SECRET_KEY="+base64.StdEncoding.EncodeToString(make([]byte, 32)), "TOLLGATE_PUBLISH_URL="+w.url,
	)}
	w.edge.move(w, 0)
	w.url = w.edge.URL
	return w
}

// advance has the programs see the world's time. Their monotonic clock jumps too, as
// after a sleep.
func (e *atTheEdge) advance(w *world, d time.Duration) { e.move(w, d) }

func (e *atTheEdge) move(w *world, d time.Duration) {
	e.ahead += d
	e.Set(edgetest.Clock{Wall: w.service().UnixMilli(), Ahead: e.ahead.Milliseconds()})
}

// directEdge carries out the directives that reach into the server of this process.
func (p *player) directEdge(words []string) error {
	switch words[0] {
	case "refresh": // an object that has heard nothing for long asks
		p.edge.move(p.world, 6*time.Second)
		return nil
	case "ready":
		testkit.Within(p.t, "the object is ready", 30*time.Second, func() bool {
			return p.call("GET", "/readyz", "", "Authorization", "").StatusCode == 200
		})
		return p.beside(func() error { return p.direct(words) }) // both are
	case "compared":
		id, err := fill(words[1], p.vars)
		if err != nil {
			return err
		}
		testkit.Within(p.t, "the shadow has compared", 20*time.Second, func() bool {
			totals, _ := p.call("GET", "/v1/shadows/"+id, "").body["totals"].(map[string]any)
			return fmt.Sprint(totals["compared"]) == words[2]
		})
		return nil
	case "activations": // the object has seen what is to come
		testkit.Eventually(p.t, "it has what is to come", p.loaded)
		return p.direct(words)
	case "sandbox": // it is off
		return nil
	case "drain":
		return fmt.Errorf("an object has none")
	}
	return p.direct(words)
}

// loaded is whether the object has told of every rule that is to come.
func (p *player) loaded() bool {
	upcoming, err := p.upcoming()
	check(p.t, err)
	living, err := p.store.Instances(p.t.Context())
	check(p.t, err)
	for _, i := range living {
		for _, a := range upcoming {
			for _, ref := range a.Rules {
				has := func(m instances.LoadedModule) bool { return m.RuleRef == ref }
				if (p.other == nil || i.ID != p.other.ID) && !slices.ContainsFunc(i.Modules, has) {
					return false
				}
			}
		}
	}
	return true
}

// stepEdge plays a step at the edge; of one that is listed, that it fails there.
func (p *player) stepEdge(conversation string, s step) error {
	written := "! " + strings.Join(s.directive, " ")
	if s.directive == nil {
		written = strings.Join(s.request.first, " ") + " < " + strings.Join(s.answer.first, " ")
	}
	for _, listed := range notAtTheEdge {
		if listed.conversation != conversation || listed.step != written || !strings.Contains(s.answer.body, listed.holds) {
			continue
		}
		held := p.client // to the document
		p.client = http.DefaultClient
		testkit.Eventually(p.t, s.at+" fails, as it is listed: "+listed.reason, func() bool { return p.step(s) != nil })
		if p.client = held; listed.native {
			return p.beside(func() error { return p.step(s) })
		}
		return nil
	}
	return p.step(s)
}

// beside has the server of this process answer. The object's clock follows that of
// its sandbox.
func (p *player) beside(do func() error) error {
	edge, ahead := p.edge, p.ahead.Load()
	clear(p.tokens)
	p.url, p.edge = edge.native, nil
	err := do()
	p.url, p.edge = edge.URL, edge
	clear(p.tokens)
	edge.move(p.world, time.Duration(p.ahead.Load()-ahead))
	return err
}

// The conversations, played against workerd.
func TestConversationsAtTheEdge(t *testing.T) {
	edgetest.Needed(t)
	files, err := filepath.Glob("testdata/*.txt")
	if must(t, files, err); len(files) < 10 {
		t.Fatalf("found %d conversations", len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if name != "payments" && !edgetest.All() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			steps, err := parseConversation(file, string(must(t, text, err)))
			must(t, steps, err)
			w := newEdgeWorld(t, newWorldOn(t, redistest.URL(t), newRecorder(t)))
			p := &player{world: w, kept: make(map[string]reply), grant: "all"}
			for _, step := range steps {
				if err := p.stepEdge(name, step); err != nil {
					t.Error(err)
				}
			}
			fmt.Fprint(w.log, w.edge.Log())
			p.checkRecord(t)
			p.checkTickets(t)
		})
	}
}
