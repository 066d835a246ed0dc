package worker_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/secret"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/webhooks"
)

func newVault(t testing.TB, key byte) *secret.Vault {
	t.Helper()
	v, err := secret.NewVault([]byte(strings.Repeat(string(rune(key)), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hook makes an endpoint with the keys that are given, each until its own
// moment (zero: for ever).
func (s *shop) hook(t testing.TB, url string, until map[int]tollgate.Instant, keys ...tollgate.WebhookKey) string {
	t.Helper()
	e := tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{
		Object: "webhook_endpoint", ID: s.NewID(tollgate.PrefixWebhook), CreatedAt: s.Now(), UpdatedAt: s.Now(), URL: url,
		Status: tollgate.WebhookActive, EventTypes: []string{"payment.authorized"}, SignatureScheme: tollgate.SignatureV1, SchemaVersion: tollgate.SchemaVersion,
	}}
	for _, k := range keys {
		sealed, err := newVault(t, 1).Seal(rand.Reader, fmt.Sprintf("%s/%d/%s", e.ID, k.Version, k.Scheme), k.Secret)
		if err != nil {
			t.Fatal(err)
		}
		e.SigningKeys = append(e.SigningKeys, tollgate.SigningKey{Version: k.Version, Scheme: k.Scheme, CreatedAt: s.Now(), ExpiresAt: until[k.Version]})
		e.Sealed = append(e.Sealed, tollgate.SealedKey{Version: k.Version, Scheme: k.Scheme, Secret: sealed})
	}
	there, err := s.WebhookList(t.Context(), s.Caller.Organization)
	if err != nil {
		t.Fatal(err)
	}
	s.commit(t)(tollgate.CreateWebhook(s.NewID, s.Origin(s.Caller), there, e))
	return e.ID
}

// commit writes what was decided of an endpoint.
func (s *shop) commit(t testing.TB) func(*tollgate.WebhookChange, error) {
	return func(ch *tollgate.WebhookChange, err error) {
		t.Helper()
		if err == nil {
			_, err = s.CommitWebhook(t.Context(), s.Caller, nil, ch, rediskv.Answer{Status: 200})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// remove deletes an endpoint.
func (s *shop) remove(t testing.TB, hook string) {
	t.Helper()
	s.commit(t)(tollgate.DeleteWebhook(s.NewID, s.Origin(s.Caller), *s.webhook(t, hook)))
}

func (s *shop) webhook(t testing.TB, id string) *tollgate.StoredWebhook {
	t.Helper()
	e, err := s.Webhook(t.Context(), s.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (s *shop) deliveries(t testing.TB, webhook string) []tollgate.Delivery {
	t.Helper()
	rows, _, more, err := s.Deliveries(t.Context(), s.Caller, webhook, webhooks.DeliveryQuery{Limit: 1000})
	if err != nil || more {
		t.Fatal(more, err)
	}
	return rows
}

// settled waits for the only delivery of an endpoint to come into a state
// after so many attempts.
func (s *shop) settled(t testing.TB, webhook string, state tollgate.DeliveryState, attempts int) tollgate.Delivery {
	t.Helper()
	var d tollgate.Delivery
	until(t, fmt.Sprintf("%s after %d attempts", state, attempts), func() bool {
		all := s.deliveries(t, webhook)
		if len(all) != 1 {
			return false
		}
		d = all[0]
		return d.State == state && d.AttemptCount == attempts
	})
	return d
}

func (s *shop) attempts(t testing.TB, d tollgate.Delivery) []tollgate.Attempt {
	t.Helper()
	rows, more, err := s.Attempts(t.Context(), s.Caller, d.WebhookID, d.ID, 0, 100)
	if err != nil || more {
		t.Fatal(more, err)
	}
	all := make([]tollgate.Attempt, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// work runs a worker until the test ends, or until stop is called, and waits
// for its end.
func (s *shop) work(t testing.TB, c worker.Config) (stop func()) {
	t.Helper()
	if c.Store == nil {
		c.Store = s.Store
	}
	c.Clock, c.Development = s.Clock.Now, true
	c.Interval = cmp.Or(c.Interval, 20*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorker(t, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Error("Run goes on after its context has ended")
		}
	})
	t.Cleanup(stop)
	return stop
}

// reserveAll asks for all that is due.
func reserveAll([]*webhooks.Turn) {}

// looked waits until it was looked everywhere what falls due.
func (s *shop) looked(t testing.TB) {
	t.Helper()
	since := s.Clock.looks.Load()
	until(t, "a look at every queue", func() bool { return s.Clock.looks.Load() > since+3*partitions })
}

// inbox is a receiver that keeps what it gets and answers as it is told.
type inbox struct {
	url    string
	mu     sync.Mutex
	got    []received
	answer http.HandlerFunc // nil: 200
}

type received struct {
	header http.Header
	body   string
}

func newInbox(t testing.TB) *inbox {
	t.Helper()
	in := new(inbox)
	in.url = receiver(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		in.mu.Lock()
		in.got = append(in.got, received{req.Header, string(body)})
		answer := in.answer
		in.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	}).URL
	return in
}

func (in *inbox) answers(f http.HandlerFunc) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.answer = f
}

func (in *inbox) all() []received {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.got[:len(in.got):len(in.got)]
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
