package rediskv_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
)

// held makes an endpoint that has missed so many deliveries, and is enabled
// again.
func (f *fixture) held(t testing.TB, deliveries int) (webhook string, since tollgate.Instant) {
	t.Helper()
	w := f.endpoint(t)
	since = f.Now()
	if _, err := f.disableWebhook(t, *w); err != nil {
		t.Fatal(err)
	}
	for range deliveries {
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	f.fanOut(t, "a")
	f.enable(t, w.ID)
	return w.ID, since
}

func (f *fixture) enable(t testing.TB, webhook string) {
	t.Helper()
	if _, err := f.changeWebhook(t, *f.webhook(t, webhook), func(w *tollgate.WebhookEndpoint) { w.Status = tollgate.WebhookActive }); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) recover(t testing.TB, webhook string, since tollgate.Instant) (id string) {
	t.Helper()
	r, err := tollgate.RecoverWebhook(f.NewID, f.Origin(f.Caller), webhook, since)
	must(t, err)
	_, err = f.CommitRecovery(t.Context(), f.Caller, nil, r, rediskv.Answer{Status: 202})
	must(t, err)
	return r.ID
}

func (f *fixture) recovery(t testing.TB, webhook, id string) tollgate.Recovery {
	t.Helper()
	r, err := f.Recovery(t.Context(), f.Caller, webhook, id)
	if err != nil {
		t.Fatal(err)
	}
	return *r
}

// runJobs gives the jobs of the fixture's partition one turn.
func (f *fixture) runJobs(t testing.TB, s *store.Store) (looked int, err error) {
	t.Helper()
	for p := range s.Partitions() {
		if !f.skip(t, p) {
			return s.RunJobs(t.Context(), p)
		}
	}
	t.Fatal("no partition")
	return 0, nil
}

// observed is a Store on the fixture's Redis that tells of its operations.
func (f *fixture) observed(t testing.TB, url string, observe func(operation string)) *store.Store {
	t.Helper()
	return openWith(t, rediskv.Options{
		URL: url, Clock: f.Clock.Now, Observe: func(operation string, _ time.Duration, _ error) { observe(operation) },
	})
}

const missed = 510 // two batches

// A step that another worker has made already, and one that comes after the
// end, change nothing.
func TestRecoveryOfTwoWorkers(t *testing.T) {
	for name, ahead := range map[string]int{"one step ahead": 1, "at its end": 2} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			webhook, since := f.held(t, missed)
			id := f.recover(t, webhook, since)
			read, goOn := make(chan struct{}), make(chan struct{})
			once := sync.OnceFunc(func() {
				close(read)
				<-goOn
			})
			slow := f.observed(t, f.URL, func(operation string) {
				if operation == "recovery_batch" {
					once()
				}
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				if n, err := f.runJobs(t, slow); n != 0 || err != nil {
					t.Errorf("the slower worker has gone through %d, %v", n, err)
				}
			}()
			<-read
			for range ahead {
				if _, err := f.runJobs(t, f.Store); err != nil {
					t.Error(err)
				}
			}
			close(goOn)
			<-done
			for range 2 {
				if _, err := f.runJobs(t, slow); err != nil {
					t.Error(err)
				}
			}
			if r := f.recovery(t, webhook, id); r.State != "succeeded" || r.Looked != missed || r.Queued != missed || r.CompletedAt == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The reply to the request for a recovery is lost, and the job is under way
// before the request is sent again: it does not begin anew.
func TestRecoveryUnderWayIsNotMadeAgain(t *testing.T) {
	f := newFixtureAt(t, redistest.Single(t).URL)
	webhook, since := f.held(t, missed)
	wire := redistest.Proxy(t, f.URL)
	s := f.observed(t, wire.URL, func(string) {})
	lost := wire.SwallowReply("EVALSHA " + hashOf("requeue"))
	ids := make(chan string)
	go func() {
		through := &fixture{f.Through(s), f.tag}
		ids <- through.recover(t, webhook, since)
	}()
	<-lost
	wire.Pause()
	if n, err := f.runJobs(t, f.Store); n != 500 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	wire.Resume()
	id := <-ids
	for range 2 {
		if _, err := f.runJobs(t, f.Store); err != nil {
			t.Error(err)
		}
	}
	if r := f.recovery(t, webhook, id); r.State != "succeeded" || r.Looked != missed || r.Queued != missed {
		t.Errorf("%+v", r)
	}
}

// A partition's jobs take turns, and one that fails keeps none of them up.
func TestJobsTakeTurns(t *testing.T) {
	f := newFixture(t)
	webhook, since := f.held(t, missed)
	broken := f.recover(t, webhook, since)
	for range 15 {
		f.Clock.Advance(time.Millisecond)
		f.recover(t, webhook, since)
	}
	f.Clock.Advance(time.Millisecond)
	w := f.endpoint(t)
	last := f.recover(t, w.ID, f.Now())
	c, key := f.raw(t)
	if err := c.HSet(t.Context(), strings.TrimSuffix(key, "events")+broken, "json", "{").Err(); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(time.Millisecond)
	for range 2 {
		if _, err := f.runJobs(t, f.Store); err == nil {
			t.Error("no error of the broken job")
		}
	}
	if r := f.recovery(t, w.ID, last); r.State != "succeeded" {
		t.Errorf("%s: others are always ahead", r.State)
	}
}
