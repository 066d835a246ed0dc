package sealing_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/handlers/worker/sealing"
)

// receiver is who is told of checkpoints, outside every bubble of time.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	notes []string
}

// newReceiver answers as it is told to, and keeps no connection open.
func newReceiver(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	to := &receiver{}
	to.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s %v: %v", r.Method, r.Header, err)
		}
		to.mu.Lock()
		to.notes = append(to.notes, string(note))
		to.mu.Unlock()
		answer(w, r)
	}))
	to.Config.SetKeepAlivesEnabled(false)
	to.Start()
	t.Cleanup(to.Close)
	return to
}

func (to *receiver) received() []string {
	to.mu.Lock()
	defer to.mu.Unlock()
	return slices.Clone(to.notes)
}

// What the witness does not take is told again each minute, and each failure is counted
// and logged. Only the last checkpoint is told; what it has taken is not told again.
func TestWitnessIsToldAgain(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	to := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	synctest.Test(t, func(t *testing.T) {
		var heard []bool
		var log bytes.Buffer
		w, err := sealing.NewWitness(to.URL+"/?key=secret", "1", slog.New(slog.NewTextHandler(&log, nil)), func(failed bool) { heard = append(heard, failed) })
		must(t, err)
		ctx, end := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { w.Run(ctx) })
		after := func(d time.Duration, notes ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := to.received(); !slices.Equal(got, notes) {
				t.Fatalf("it was told %q, not %q", got, notes)
			}
		}
		w.Tell("org_1", "one")
		after(0, "one")
		after(59*time.Second, "one")
		after(time.Second, "one", "one")
		w.Tell("org_1", "two")
		after(0, "one", "one", "two")
		status.Store(http.StatusNoContent)
		after(time.Minute, "one", "one", "two", "two")
		after(time.Hour, "one", "one", "two", "two")
		if !slices.Equal(heard, []bool{true, true, true, false}) {
			t.Errorf("heard of attempts that failed: %v", heard)
		}
		if text := log.String(); strings.Count(text, "it answered 503") != 3 || strings.Contains(text, "secret") {
			t.Errorf("logged: %s", text)
		}
		end()
		run.Wait()
	})
}

// A witness that hangs does not hold up sealing; nor does one that is away.
func TestSealingDoesNotWaitForTheWitness(t *testing.T) {
	t.Parallel()
	var given atomic.Int64 // up
	reached := make(chan struct{}, 8)
	to := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		<-r.Context().Done()
		given.Add(1)
	})
	r := newRecord(t)
	r.serve()
	ctx, end := context.WithCancel(t.Context())
	var run sync.WaitGroup
	tell := func(url string, heard func(bool)) {
		w, err := sealing.NewWitness(url, "1", slog.New(slog.DiscardHandler), heard)
		must(t, err)
		r.own.Witness = w
		run.Go(func() { w.Run(ctx) })
	}
	tell(to.URL, func(bool) {})
	r.write(1)
	r.seal()
	<-reached
	r.write(3)
	if n := r.seal(); n != 3 || given.Load() != 0 {
		t.Errorf("%d entries are sealed, behind %d attempts that were given up", n, given.Load())
	}
	if got := to.received(); len(got) != 1 || !strings.HasPrefix(got[0], "pay.example/audit/"+r.Caller.Organization) {
		t.Errorf("it was told %q", got)
	}

	failed := make(chan bool, 8)
	away := httptest.NewServer(nil)
	away.Close()
	tell(away.URL, func(is bool) { failed <- is })
	r.write(2)
	if n := r.seal(); n != 2 {
		t.Errorf("%d entries are sealed", n)
	}
	if !<-failed {
		t.Error("an attempt at nobody has succeeded")
	}
	r.green()
	end()
	run.Wait()
}
