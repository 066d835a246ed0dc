package handlers_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/edge/edgetest"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// notAtTheEdge are the conversations that cannot be played to their end against
// workerd: the step at which each stops, and why.
var notAtTheEdge = map[string]struct{ step, reason string }{}

// atTheEdge is the service on workerd, for a world.
type atTheEdge struct {
	*edgetest.Runtime
	ahead time.Duration // of its monotonic clock, what was jumped over
}

// newEdgeWorld is a world whose requests workerd answers. What an object has not,
// processes that examine a rule, the server of this process does, as it would of a
// deployment.
func newEdgeWorld(t *testing.T, w *world) *world {
	t.Helper()
	native := w.url
	w.edge = &atTheEdge{Runtime: edgetest.StartHarness(t,
		"TOLLGATE_REDIS_URL="+w.redis, "TOLLGATE_ISSUER="+issuer, "TOLLGATE_SIGNING_KEY="+string(w.signing),
		"TOLLGATE_SECRET_KEY="+base64.StdEncoding.EncodeToString(make([]byte, 32)), "TOLLGATE_PUBLISH_URL="+native,
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
	e.Set(edgetest.Clock{Wall: w.now().UnixMilli(), Ahead: e.ahead.Milliseconds()})
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
		return nil
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
	case "sandbox", "drain":
		return fmt.Errorf("an object has none")
	}
	return p.direct(words)
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
		if os.Getenv(edgetest.Variable) == "some" && !slices.Contains([]string{"payments"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			steps, err := parseConversation(file, string(must(t, text, err)))
			must(t, steps, err)
			w := newEdgeWorld(t, newWorldOn(t, redistest.URL(t), newRecorder(t)))
			p := &player{world: w, kept: make(map[string]reply), grant: "all"}
			stops := notAtTheEdge[name]
			for _, step := range steps {
				err := p.step(step)
				switch {
				case err == nil:
				case stops.step == "" || !strings.Contains(err.Error(), stops.step):
					t.Fatal(err)
				default:
					t.Logf("%v: %s", err, stops.reason)
					stops.step = ""
					return
				}
			}
			if stops.step != "" {
				t.Errorf("it goes to its end, though listed: %s", stops.reason)
			}
			fmt.Fprint(w.log, w.edge.Log())
			p.checkRecord(t)
			p.checkTickets(t)
		})
	}
}
