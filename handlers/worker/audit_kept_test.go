package worker_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/keyring"
	"tollgate/handlers/worker"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/redistest"
)

// TestAuditIsKept: a worker removes entries of the audit record after 400 days,
// or after what it is told, and none before. Entries have Redis' time.
// None goes that is not sealed, and the last that is sealed stays.
func TestAuditIsKept(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	until(t, "entries of two milliseconds", func() bool { // those of the last one that is sealed stay
		s.pay(t, 1000)
		all, err := s.Store.Unsealed(t.Context(), s.Caller.Organization, "0-0", 1000)
		if err != nil {
			t.Fatal(err)
		}
		return audittree.PlaceTime(all[0].ID) < audittree.PlaceTime(all[len(all)-1].ID)
	})
	s.sealed(t)
	const day = 24 * time.Hour
	trimmed := func(after, keep time.Duration) int {
		t.Helper()
		w := newWorker(t, worker.Config{
			Store: s.Store, Clock: s.Clock.Now, Wall: func() time.Time { return time.Now().Add(after) }, KeepEvents: 10_000 * day, KeepAudit: keep,
		})
		n, err := w.TrimRound(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct{ after, keep time.Duration }{{399 * day, 0}, {401 * day, 402 * day}} {
		if n := trimmed(c.after, c.keep); n != 0 {
			t.Errorf("after %s, kept for %s: %d entries are gone", c.after, c.keep, n)
		}
	}
	s.pay(t, 1000) // which is not sealed
	if n := trimmed(401*day, 0); n == 0 {
		t.Error("after 401 days none is gone")
	}
	if n := trimmed(402*day, 0); n != 0 {
		t.Errorf("%d entries are gone that are not sealed, or the last that is", n)
	}
}

// sealed has the audit record sealed, as a worker does once an instance has served.
func (s *shop) sealed(t testing.TB) {
	t.Helper()
	ring, err := keyring.New(keyring.Config{Store: s.Store, Vault: newVault(t, 1), Entropy: rand.Reader, Clock: s.Clock.Now})
	if err == nil {
		err = ring.RecordIssuer(t.Context(), "https://pay.example")
	}
	if err == nil {
		_, err = newWorker(t, worker.Config{Store: s.Store, Clock: s.Clock.Now}).SealRound(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A worker that is given a witness tells it of what it seals.
func TestWitnessOfAWorker(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	told := make(chan string, 16)
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		note, _ := io.ReadAll(r.Body)
		select {
		case told <- string(note):
		default:
		}
	}))
	t.Cleanup(to.Close)
	ring, err := keyring.New(keyring.Config{Store: s.Store, Vault: newVault(t, 1), Entropy: rand.Reader, Clock: s.Clock.Now})
	if err == nil {
		err = ring.RecordIssuer(t.Context(), "https://pay.example")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.pay(t, 1000)
	s.works(t, worker.Config{Witness: to.URL})
	if note := <-told; !strings.HasPrefix(note, "pay.example/audit/"+s.Caller.Organization+"/") {
		t.Errorf("it is told %q", note)
	}
}
