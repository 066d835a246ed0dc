package rediskv_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// TestWaitingTakesNoConnections: however many readers wait for one organization,
// another's is told of its event; Watch tells all of them, on one connection.
func TestWaitingTakesNoConnections(t *testing.T) {
	f := newFixtureAt(t, redistest.Single(t).URL)
	const readers, most = 1000, 100
	var looked atomic.Int64
	s := f.observed(t, f.URL, func(operation string) {
		if operation == "wait_events" {
			looked.Add(1)
		}
	})
	waiting, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { s.Watch(waiting) })

	ended := make(chan error, readers)
	waits := func(org string, ended chan<- error) {
		end, err := s.LastEvent(t.Context(), rediskv.Caller{Organization: org})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			// Whoever waits is told to look, too, when Watch has just begun to listen.
			for waiting.Err() == nil {
				err := s.WaitEvents(waiting, org, end)
				if err == nil && waiting.Err() == nil {
					var last eventlog.Position
					if last, err = s.LastEvent(waiting, rediskv.Caller{Organization: org}); err == nil && last == end {
						continue
					}
				}
				ended <- err
				return
			}
		})
	}
	greedy := f.another(t).Organization.ID
	for range readers {
		waits(greedy, ended)
	}
	server := rawClient(t, f.URL)
	for looked.Load() < readers {
		info, err := server.Info(t.Context(), "clients").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(info, "connected_clients:")
		if n, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0])); n > most {
			t.Fatalf("%d connections", n)
		}
		select {
		case err := <-ended:
			t.Fatalf("a reader that has nothing to read: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	modest := make(chan error, 1)
	waits(f.Caller.Organization, modest)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	select {
	case err := <-modest:
		if err != nil {
			t.Error(err)
		}
	case err := <-ended:
		t.Errorf("a reader that has nothing to read: %v", err)
	case <-time.After(redistest.Patience):
		t.Error("the other organization's reader was not told")
	}
}

// TestEventsAreNoticedWithoutPush: a process that does not hear what the scripts
// tell looks for itself.
func TestEventsAreNoticedWithoutPush(t *testing.T) {
	f := newFixture(t)
	end, err := f.LastEvent(t.Context(), f.Caller)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() { told <- f.WaitEvents(t.Context(), f.Caller.Organization, end) }()
	f.Pay(t, eur(100), tollgate.CaptureManual)
	select {
	case err := <-told:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(redistest.Patience):
		t.Error("the reader was not told")
	}
}

// Whoever has read all events of an organization that has been quiet for longer than they are
// kept is told of the next one, and not that something is lost. Older cursors have expired.
func TestQuietForLong(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	_, first, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 1})
	must(t, err)
	f.NextMilli(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	_, all, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100})
	must(t, err)
	f.Redis.Del(t.Context(), f.Space(f.Caller.Organization).Dispatch)
	for p := range f.Partitions() {
		_, err := f.TrimEvents(t.Context(), p, tollgate.At(time.Now().Add(time.Hour)))
		must(t, err)
	}
	read := func(after eventlog.Position) ([]jsontext.Value, error) {
		events, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{After: after, Limit: 100})
		return events, err
	}
	if events, err := read(all); err != nil || len(events) != 0 {
		t.Errorf("after the last event: %s, %v", events, err)
	}
	if _, err := read(first); testkit.Code(err) != "cursor_expired" {
		t.Errorf("after one that is gone: %v", err)
	}
	f.Pay(t, eur(100), tollgate.CaptureManual)
	if events, err := read(all); err != nil || len(events) != 1 {
		t.Errorf("the next event: %s, %v", events, err)
	}
	if r, err := f.HistoryFor(t.Context(), f.Caller.Organization); err != nil || !r.Open || r.Loss != nil {
		t.Errorf("something is thought to be lost: %+v, %v", r, err)
	}
}
