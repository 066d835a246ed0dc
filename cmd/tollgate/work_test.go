package main

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
)

// The worker's readiness names each part that stands still: here all, because
// it does not run.
func TestWorkReadiness(t *testing.T) {
	store, err := store.Open(t.Context(), rediskv.Options{URL: redistest.URL(t), Clock: time.Now, Entropy: rand.Reader, Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	vault, err := tollgate.NewVault(make([]byte, 32), "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{Store: store, Clock: time.Now, Entropy: rand.Reader, Vault: vault})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := newObservers()
	if err != nil {
		t.Fatal(err)
	}
	handler := workHandler(store, w, metrics)
	var r *httptest.ResponseRecorder
	var body string
	eventually(t, "Redis answers within the second that the look has", func() bool {
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

// A worker that cannot start claims nothing: it would be held for as long as a
// lease lasts, and a supervisor starts the next one at once.
func TestWorkMetricsPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	for range 5 { // how far a worker would come is chance
		wire.Reset()
		p := launch(t, s.env, "work", "--metrics-addr", taken.Addr().String())
		if code := p.exit(); code != exitUsage || !p.says("address already in use") {
			t.Errorf("exit code %d: %v", code, p.lines)
		}
		for _, look := range []string{"XREADGROUP", "EVALSHA", "ZRANGE", "XLEN"} {
			if n := wire.Count(look); n > 0 {
				t.Errorf("it has begun to work: %d times %s", n, look)
			}
		}
	}
}
