package builds_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// payStep is where workers ask for payouts to be paid. It pays each id once.
type payStep struct {
	*httptest.Server
	secret string

	mu    sync.Mutex
	order []string
	paid  map[string]payRequest
}

// payRequest is what a payout was paid as, and by whose worker.
type payRequest struct {
	Amount string `json:"amount"`
	agent  string
}

func newPayStep(t *testing.T) *payStep {
	p := &payStep{secret: "whsec_" + secret(), paid: map[string]payRequest{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		asked := payRequest{agent: req.UserAgent()}
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Errorf("%v in %s", err, body)
		}
		id := req.Header.Get("Idempotency-Key")
		p.mu.Lock()
		defer p.mu.Unlock()
		if before, again := p.paid[id]; again && before.Amount != asked.Amount {
			t.Errorf("payout %s was paid with %s, now it is to be %s", id, before.Amount, asked.Amount)
		}
		p.order, p.paid[id] = append(p.order, id), asked
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"paid","reference":"bank"}`)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *payStep) env() []string {
	return []string{"TOLLGATE_PAYOUT_URL=" + p.URL, "TOLLGATE_PAYOUT_SECRET=" + p.secret}
}

// asked is what was paid, by id.
func (p *payStep) asked() map[string]payRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	copied := map[string]payRequest{}
	for id, r := range p.paid {
		copied[id] = r
	}
	return copied
}

// receiver takes deliveries and notes which builds made them.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	refuse bool
	agents []string
	types  []string          // who delivered which type
	bodies map[string]string // by event
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{bodies: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		id := req.Header.Get("webhook-id")
		if before, again := r.bodies[id]; again && before != string(body) {
			t.Errorf("event %s was %s, now it is %s", id, before, body)
		}
		if req.Header.Get("webhook-signature") == "" {
			t.Errorf("event %s is not signed", id)
		}
		r.agents, r.bodies[id] = append(r.agents, req.UserAgent()), string(body)
		var event struct {
			Type string `json:"type"`
		}
		must(t, json.Unmarshal(body, &event))
		name, _, _ := strings.Cut(strings.TrimPrefix(req.UserAgent(), "Tollgate/"), " ")
		r.types = append(r.types, name+" "+event.Type)
		if r.refuse {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// has reports whether an event was delivered whose body has text.
func (r *receiver) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.bodies {
		if strings.Contains(body, text) {
			return true
		}
	}
	return false
}

// by reports whether a build has delivered anything.
func (r *receiver) by(b *build) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.agents, func(agent string) bool { return strings.Contains(agent, "/"+b.Name+" ") })
}

func (r *receiver) refuses(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = yes
}

// delivered reports whether a build has delivered an event of a type.
func (r *receiver) delivered(b *build, kind string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.types, b.Name+" "+kind)
}
