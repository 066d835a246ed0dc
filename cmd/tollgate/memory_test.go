package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tollgate/rediskv/redistest"
)

// memoryVariable has TestServeMemory run: it takes half a minute (`make memory`).
const memoryVariable = "TOLLGATE_TEST_MEMORY"

// What serve may take up within a limit, and how it is asked.
const (
	serveLimit       = "120MiB"
	serveMemory      = 200 // MiB, resident, at most at any time: the limit is of Go's own memory alone
	serveConnections = 512
	serveRequests    = 40_000
)

// On 512 connections that all ask at once, serve keeps to GOMEMLIMIT. Without one it
// takes more, because it collects garbage at 400 %, and its copies of payments live
// (rediskv.DefaultPaymentBytes): how much is told.
func TestServeMemory(t *testing.T) {
	if os.Getenv(memoryVariable) == "" {
		t.Skip("runs in `make memory`")
	}
	for _, limit := range []string{serveLimit, ""} {
		t.Run("GOMEMLIMIT="+limit, func(t *testing.T) {
			s := newSite(t, redistest.Fresh(t).URL)
			if limit != "" {
				s.env = append(s.env, "GOMEMLIMIT="+limit)
			}
			serve := s.serve()
			base := serve.serving()
			s.authenticate(base)
			idle := resident(t, serve, "VmRSS")
			s.flood(base)
			most := resident(t, serve, "VmHWM")
			t.Logf("serve: %.0f MiB idle, at most %.0f MiB on %d connections", idle, most, serveConnections)
			if limit != "" && most > serveMemory {
				t.Errorf("%.0f MiB are resident, at most %d", most, serveMemory)
			}
		})
	}
}

// flood sends quotes and payments on all connections.
func (s *site) flood(base string) {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: serveConnections, MaxConnsPerHost: serveConnections}}
	defer client.CloseIdleConnections()
	var sent, refused atomic.Int64
	var clients sync.WaitGroup
	for range serveConnections {
		clients.Go(func() {
			for n := sent.Add(1); n <= serveRequests; n = sent.Add(1) {
				path := []string{"/v1/quotes", "/v1/payments"}[n%2]
				r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, base+path, strings.NewReader(`{"amount":"10.00","currency":"EUR","payee":"shop.example"}`))
				if err != nil {
					s.t.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+s.token)
				r.Header.Set("Content-Type", "application/json")
				if path == "/v1/payments" {
					r.Header.Set("Idempotency-Key", fmt.Sprint("key-", n))
				}
				answer, err := client.Do(r)
				if err != nil {
					s.t.Error(err)
					return
				}
				text, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				switch answer.StatusCode {
				case http.StatusOK, http.StatusCreated:
				case http.StatusTooManyRequests, http.StatusServiceUnavailable: // its share is in use
					refused.Add(1)
				default:
					s.t.Errorf("%s: %d %s", path, answer.StatusCode, text)
				}
			}
		})
	}
	clients.Wait()
	if n := refused.Load(); n > serveRequests/2 {
		s.t.Errorf("%d of %d were refused: this proves little", n, serveRequests)
	}
}
