package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestEveryPaymentHasItsOwnKey(t *testing.T) {
	var mu sync.Mutex
	keys := make(map[string]int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]string
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body["merchant_account_id"] != "ma_1" ||
			r.URL.Path != "/v1/payments" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		keys[r.Header.Get("Idempotency-Key")]++
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	if err := run(200, 500*time.Millisecond, environment(server.URL)); err != nil && !strings.Contains(err.Error(), "rate was not reached") {
		t.Fatal(err) // a busy machine may miss the rate
	}
	if len(keys) < 50 || keys[""] > 0 {
		t.Fatalf("%d keys", len(keys))
	}
	for key, times := range keys {
		if times != 1 {
			t.Fatalf("key %q was sent %d times", key, times)
		}
	}
}

func TestRefusedPaymentsFailTheRun(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "token_expired", http.StatusUnauthorized)
	}))
	defer server.Close()
	err := run(100, 200*time.Millisecond, environment(server.URL))
	if err == nil || !strings.Contains(err.Error(), "token_expired") {
		t.Fatalf("error %v, want the answer's text", err)
	}
}

func TestRefusesOtherMachines(t *testing.T) {
	for _, address := range []string{"https://tollgate.example", "http://192.0.2.1:8080", "http://127.0.0.1.example", "127.0.0.1:8080", ""} {
		if err := run(1, time.Second, environment(address)); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
	for _, address := range []string{"http://localhost:8080", "http://127.0.0.1:8080", "http://[::1]:8080/"} {
		if _, err := loopback(address); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestRefusesRatesAndDurations(t *testing.T) {
	for _, c := range []struct {
		rate     float64
		duration time.Duration
	}{{0, time.Second}, {-1, time.Second}, {1e6, time.Second}, {1, 0}, {1, time.Hour}} {
		if err := run(c.rate, c.duration, environment("http://127.0.0.1:1")); err == nil {
			t.Errorf("%v/s for %s was accepted", c.rate, c.duration)
		}
	}
}

func environment(url string) func(string) string {
	return func(name string) string {
		return map[string]string{
			"TOLLGATE_URL": url, "TOLLGATE_TOKEN": "secret", "TOLLGATE_MERCHANT_ACCOUNT": "ma_1",
		}[name]
	}
}
