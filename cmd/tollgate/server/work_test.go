package server

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/secret"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

// The worker's readiness names each part that stands still: here all, because
// it does not run.
func TestWorkReadiness(t *testing.T) {
	store, err := store.Open(t.Context(), rediskv.Options{URL: redistest.URL(t), Clock: time.Now, Entropy: rand.Reader, Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	vault, err := secret.NewVault(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{Store: store, Clock: time.Now, Entropy: rand.Reader, Vault: vault})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewObservers()
	if err != nil {
		t.Fatal(err)
	}
	handler := workHandler(store, w, metrics)
	var r *httptest.ResponseRecorder
	var body string
	testkit.Eventually(t, "Redis takes a heartbeat", func() bool {
		store.Beat(t.Context())
		r = httptest.NewRecorder()
		handler.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		body = r.Body.String()
		return strings.Contains(body, `"redis":"ok"`)
	})
	if r.Code != http.StatusServiceUnavailable || !strings.HasPrefix(body, `{"status":"unavailable","checks":{"clock":"clock: partition 0 makes no progress",`) ||
		!strings.Contains(body, `"deliveries":"fan-out of partition 0 makes no progress"`) {
		t.Errorf("%d %s", r.Code, body)
	}
}
