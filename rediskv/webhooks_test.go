package rediskv_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/webhooks"
)

// lease is how long work is leased in these tests.
const lease = 30 * time.Second

func (f *fixture) endpoint(t testing.TB, types ...string) *tollgate.StoredWebhook {
	t.Helper()
	w := tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{
		Object: "webhook_endpoint", ID: f.NewID(tollgate.PrefixWebhook), CreatedAt: f.Now(), UpdatedAt: f.Now(), URL: "https://shop.example/hooks",
		Status: tollgate.WebhookActive, EventTypes: types, SignatureScheme: tollgate.SignatureV1, SchemaVersion: tollgate.SchemaVersion,
		SigningKeys: []tollgate.SigningKey{{Version: 1, Scheme: tollgate.SignatureV1, CreatedAt: f.Now()}}, Secret: "whsec_never_kept",
	}, Sealed: []tollgate.SealedKey{{Version: 1, Scheme: tollgate.SignatureV1, Secret: []byte{1, 2, 3}}}}
	if _, err := f.createWebhook(t, w); err != nil {
		t.Fatal(err)
	}
	return f.webhook(t, w.ID)
}

func (f *fixture) createWebhook(t testing.TB, w tollgate.StoredWebhook) (rediskv.Result, error) {
	t.Helper()
	there, err := f.WebhookList(t.Context(), f.Caller.Organization)
	if err != nil {
		return rediskv.Result{}, err
	}
	ch, err := tollgate.CreateWebhook(f.NewID, f.Origin(f.Caller), there, w)
	if err != nil {
		return rediskv.Result{}, err
	}
	return f.CommitWebhook(t.Context(), f.Caller, nil, ch, rediskv.Answer{Status: 201})
}

// changeWebhook changes an endpoint as it was read.
func (f *fixture) changeWebhook(t testing.TB, was tollgate.StoredWebhook, how func(*tollgate.WebhookEndpoint)) (rediskv.Result, error) {
	t.Helper()
	want := was.WebhookEndpoint
	how(&want)
	ch, err := tollgate.ChangeWebhook(f.NewID, f.Origin(f.Caller), tollgate.WebhookKeys{}, was, want)
	if err != nil {
		return rediskv.Result{}, err
	}
	return f.CommitWebhook(t.Context(), f.Caller, nil, ch, rediskv.Answer{Status: 200})
}

func (f *fixture) deleteWebhook(t testing.TB, was tollgate.StoredWebhook) error {
	t.Helper()
	ch, err := tollgate.DeleteWebhook(f.NewID, f.Origin(f.Caller), was)
	must(t, err)
	_, err = f.CommitWebhook(t.Context(), f.Caller, nil, ch, rediskv.Answer{})
	return err
}

// disableWebhook disables an endpoint as a worker does.
func (f *fixture) disableWebhook(t testing.TB, was tollgate.StoredWebhook) (disabled bool, err error) {
	t.Helper()
	ch, err := tollgate.DisableWebhook(f.NewID, f.Origin(f.Caller), was, "gone")
	if err != nil || ch == nil {
		return false, err
	}
	_, err = f.CommitWebhook(t.Context(), rediskv.Caller{Organization: f.Caller.Organization}, nil, ch, rediskv.Answer{})
	if errors.Is(err, rediskv.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// replay has a delivery sent again.
func (f *fixture) replay(t testing.TB, webhook, delivery string) (id string, err error) {
	t.Helper()
	return rediskv.Retried(func() (string, error) {
		d, err := f.Delivery(t.Context(), f.Caller, webhook, delivery)
		if err != nil {
			return "", err
		}
		r, err := tollgate.ReplayDelivery(f.NewID, f.Origin(f.Caller), *d, nil)
		if err != nil {
			return "", err
		}
		result, err := f.CommitReplay(t.Context(), f.Caller, nil, r, rediskv.Answer{Status: 202})
		return r.Replay.ID, first(result, err, 202)
	})
}

func (f *fixture) webhook(t testing.TB, id string) *tollgate.StoredWebhook {
	t.Helper()
	w, err := f.Webhook(t.Context(), f.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// partition is the one in which the organization lives; the store does not
// say, so all are tried.
func (f *fixture) fanOut(t testing.TB, consumer string) (events int) {
	t.Helper()
	for p := range f.Partitions() {
		if f.skip(t, p) {
			continue
		}
		for {
			fanned, err := f.FanOut(t.Context(), p, consumer, time.Millisecond, nil)
			if err != nil {
				t.Fatal(err)
			}
			events += fanned.Events
			if fanned.Events == 0 {
				break
			}
		}
	}
	return events
}

// skip tells partitions that are not the fixture's.
func (f *fixture) skip(t testing.TB, partition int) bool {
	t.Helper()
	if f.tag == "" {
		_, key := f.raw(t)
		f.tag, _, _ = strings.Cut(key, ":")
	}
	return f.tag != fmt.Sprintf("{p%02d}", partition)
}

// TestReplayInEveryState: a delivery is sent now on demand, whatever its state,
// unless an attempt is being made.
func TestReplayInEveryState(t *testing.T) {
	f := newFixture(t)
	w := f.endpoint(t)
	replay := func(work webhooks.Work) error {
		_, err := f.replay(t, w.ID, work.DeliveryID)
		return err
	}
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	first := f.take(t, 10)[0]
	if err := replay(first); code(err) != string(tollgate.CodeDeliveryInProgress) {
		t.Errorf("while it is being sent: %v", err)
	}
	if err := replay(webhooks.Work{DeliveryID: f.NewID(tollgate.PrefixDelivery)}); code(err) != string(tollgate.CodeNotFound) {
		t.Errorf("one that is gone: %v", err)
	}
	// The receiver asks for an hour's rest, and is back sooner.
	later := f.Now().Add(time.Hour)
	ended := map[tollgate.DeliveryState]webhooks.Outcome{
		tollgate.DeliveryRetrying:  {State: tollgate.DeliveryRetrying, Next: later, Pause: later, StatusCode: 503},
		tollgate.DeliveryFailed:    {State: tollgate.DeliveryFailed, StatusCode: 500},
		tollgate.DeliverySucceeded: succeeded,
		tollgate.DeliveryPending:   succeeded, // asked for twice
	}
	at := first
	for _, state := range []tollgate.DeliveryState{tollgate.DeliveryRetrying, tollgate.DeliveryFailed, tollgate.DeliverySucceeded, tollgate.DeliveryPending} {
		f.record(t, at, ended[state])
		if n := len(f.take(t, 10)); n != 0 {
			t.Fatalf("%s: %d sent unasked", state, n)
		}
		if err := replay(at); err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		if state == tollgate.DeliveryPending {
			if err := replay(at); err != nil {
				t.Fatalf("%s: %v", state, err)
			}
		}
		sent := f.take(t, 10)
		if len(sent) != 1 || sent[0].DeliveryID != first.DeliveryID || sent[0].Trigger != tollgate.TriggeredByReplay || sent[0].Run != 1 {
			t.Fatalf("%s: sent %+v", state, sent)
		}
		if n := len(f.take(t, 10)); n != 0 {
			t.Fatalf("%s: sent %d times more", state, n)
		}
		at = sent[0]
	}
	f.record(t, at, succeeded)
	if d := f.delivery(t, at); d.State != tollgate.DeliverySucceeded || d.ReplayCount != 5 || d.AttemptCount != 5 {
		t.Errorf("at the end: %+v", d)
	}
}

// upTo reserves so many slots at most.
func upTo(slots int) func([]*webhooks.Turn) {
	return func(turns []*webhooks.Turn) {
		for _, turn := range turns {
			turn.Room = min(turn.Room, slots)
			slots -= turn.Room
		}
	}
}

func (f *fixture) take(t testing.TB, slots int) (work []webhooks.Work) {
	t.Helper()
	for p := range f.Partitions() {
		if f.skip(t, p) {
			continue
		}
		for {
			some, _, err := f.TakeDue(t.Context(), p, upTo(slots), lease)
			if err != nil {
				t.Fatal(err)
			}
			some = slices.DeleteFunc(some, func(w webhooks.Work) bool { return w.Organization != f.Caller.Organization })
			if err := f.ReadBodies(t.Context(), some); err != nil {
				t.Fatal(err)
			}
			work = append(work, some...)
			if slots -= len(some); len(some) == 0 || slots <= 0 {
				return work
			}
		}
	}
	return work
}

func (f *fixture) record(t testing.TB, w webhooks.Work, o webhooks.Outcome) (late bool) {
	t.Helper()
	r, err := f.RecordAttempts(t.Context(), []webhooks.Ended{f.ended(w, o)})
	if err != nil {
		t.Fatal(err)
	}
	return r[0].Late
}

var succeeded = webhooks.Outcome{State: tollgate.DeliverySucceeded, StatusCode: 200}

func (f *fixture) delivery(t testing.TB, w webhooks.Work) *tollgate.Delivery {
	t.Helper()
	d, err := f.Delivery(t.Context(), f.Caller, w.Endpoint.ID, w.DeliveryID)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (f *fixture) attempts(t testing.TB, w webhooks.Work) (list []tollgate.Attempt) {
	t.Helper()
	rows, more, err := f.Attempts(t.Context(), f.Caller, w.Endpoint.ID, w.DeliveryID, 0, 100)
	if err != nil || more {
		t.Fatal(more, err)
	}
	for _, r := range rows {
		var a tollgate.Attempt
		if err := json.Unmarshal(r, &a); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		list = append(list, a)
	}
	return list
}

func TestDeliveryOfEachEventToEachEndpoint(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(50), tollgate.CaptureManual) // before there was an endpoint
	all, captured := f.endpoint(t), f.endpoint(t, "payment.captured")
	p := f.Pay(t, eur(100), tollgate.CaptureManual)
	if err := f.Capture(t.Context(), p.ID, 100, true); err != nil {
		t.Fatal(err)
	}
	if n := f.fanOut(t, "a"); n != 2 {
		t.Errorf("%d events were handed over", n)
	}
	if n := f.fanOut(t, "a"); n != 0 {
		t.Errorf("%d events were handed over again", n)
	}
	work := f.take(t, 100)
	if len(work) != 3 {
		t.Fatalf("%d deliveries", len(work))
	}
	for _, w := range work {
		var e tollgate.Event
		if err := json.Unmarshal(w.Body, &e); err != nil || e.ID != w.EventID || e.Type != w.EventType || w.Number != 1 || w.Run != 1 || w.Died {
			t.Errorf("%+v: %s %v", w, w.Body, err)
		}
		if d := f.delivery(t, w); d.State != tollgate.DeliverySending || d.AttemptCount != 1 {
			t.Errorf("while sending: %+v", d)
		}
		if list := f.attempts(t, w); len(list) != 0 {
			t.Errorf("the attempt being made is listed: %+v", list)
		}
		if f.record(t, w, succeeded) {
			t.Error("late")
		}
		if d := f.delivery(t, w); d.State != tollgate.DeliverySucceeded || *d.LastStatusCode != 200 || d.CompletedAt == 0 || d.FailureReason != nil {
			t.Errorf("after success: %+v", d)
		}
	}
	if more := f.take(t, 100); len(more) != 0 {
		t.Errorf("%d deliveries after all succeeded", len(more))
	}
	for w, want := range map[*tollgate.StoredWebhook]int{all: 2, captured: 1} {
		rows, _, more, err := f.Deliveries(t.Context(), f.Caller, w.ID, webhooks.DeliveryQuery{Limit: 10})
		if err != nil || more || len(rows) != want {
			t.Errorf("%d deliveries, more %v, %v; want %d", len(rows), more, err, want)
		}
		if got := f.webhook(t, w.ID); got.LastSuccess == 0 || got.Secret != "" {
			t.Errorf("endpoint: %+v", got)
		}
	}
}

func TestRetriesLeasesAndLateAnswers(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	first := f.take(t, 10)[0]
	next := f.Now().Add(5 * time.Second)
	f.record(t, first, webhooks.Outcome{State: tollgate.DeliveryRetrying, Next: next, StatusCode: 500, Reason: "status_500"})
	if d := f.delivery(t, first); d.State != tollgate.DeliveryRetrying || d.NextAttemptAt != next || *d.FailureReason != "status_500" {
		t.Errorf("retrying: %+v", d)
	}
	if early := f.take(t, 10); len(early) != 0 {
		t.Error("taken before its time")
	}
	f.Clock.Advance(5 * time.Second)
	second := f.take(t, 10)[0]
	if second.Number != 2 || second.Run != 2 {
		t.Errorf("second attempt: %+v", second)
	}
	if d := f.delivery(t, second); d.State != tollgate.DeliverySending || d.NextAttemptAt != 0 {
		t.Errorf("while it is sent again: %+v", d)
	}
	// Its worker dies; after the lease another one has it, at no cost of a retry.
	f.Died(t, lease)
	third := f.take(t, 10)[0]
	if third.Number != 3 || third.Run != 2 || !third.Died {
		t.Errorf("after the lease: %+v", third)
	}
	// The dead one comes back: recorded, and nothing moves.
	if !f.record(t, second, succeeded) {
		t.Error("a late answer counted")
	}
	if d := f.delivery(t, third); d.State != tollgate.DeliverySending || d.AttemptCount != 3 {
		t.Errorf("after a late answer: %+v", d)
	}
	f.record(t, third, webhooks.Outcome{State: tollgate.DeliveryFailed, StatusCode: 500, Reason: "status_500"})
	list := f.attempts(t, third)
	for i, want := range []tollgate.AttemptStatus{tollgate.AttemptFailed, tollgate.AttemptSucceeded, tollgate.AttemptFailed} {
		if list[i].Number != i+1 || list[i].Status != want || list[i].Trigger != tollgate.TriggeredBySchedule {
			t.Errorf("attempt %d: %+v", i+1, list[i])
		}
	}
	if got := f.webhook(t, third.Endpoint.ID); got.Failures != 1 {
		t.Errorf("%d given up", got.Failures)
	}
}

func TestDeadAttemptStaysUnknown(t *testing.T) {
	f := newFixture(t)
	hook := f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	dead := f.take(t, 10)[0]
	f.Died(t, lease)
	w := f.take(t, 10)[0]
	f.record(t, w, succeeded)
	list := f.attempts(t, w)
	want := tollgate.Attempt{
		Object: "attempt", ID: dead.AttemptID, CreatedAt: dead.StartedAt, DeliveryID: dead.DeliveryID, Number: 1,
		Trigger: tollgate.TriggeredBySchedule, Status: tollgate.AttemptUnknown, StartedAt: dead.StartedAt, URL: hook.URL, SigningKeys: []tollgate.AttemptKey{},
	}
	if len(list) != 2 || !reflect.DeepEqual(list[0], want) || list[1].Status != tollgate.AttemptSucceeded || list[1].ID == dead.AttemptID {
		t.Errorf("%+v, want first %+v", list, want)
	}

	// Of a replay, too; the endpoint has moved since it was sent; and a late
	// answer replaces it.
	replayed, err := f.replay(t, hook.ID, w.DeliveryID)
	if err != nil {
		t.Fatal(err)
	}
	f.fanOut(t, "a")
	dead = f.take(t, 10)[0]
	const moved = "https://moved.example/hooks"
	if _, err := f.changeWebhook(t, *f.webhook(t, hook.ID), func(w *tollgate.WebhookEndpoint) { w.URL = moved }); err != nil {
		t.Fatal(err)
	}
	f.Died(t, lease)
	w = f.take(t, 10)[0]
	if w.Endpoint.URL != moved {
		t.Errorf("the next attempt goes to %s", w.Endpoint.URL)
	}
	want.ID, want.Number, want.CreatedAt, want.StartedAt = dead.AttemptID, 3, dead.StartedAt, dead.StartedAt
	want.Trigger, want.ReplayID = tollgate.TriggeredByReplay, &replayed
	if list = f.attempts(t, w); len(list) != 3 || !reflect.DeepEqual(list[2], want) {
		t.Errorf("%+v, want last %+v", list, want)
	}
	if late := f.record(t, dead, succeeded); !late {
		t.Error("not late")
	}
	if list = f.attempts(t, w); len(list) != 3 || list[2].Status != tollgate.AttemptSucceeded || list[2].ID != dead.AttemptID {
		t.Errorf("%+v", list)
	}
}

func TestCapsShrinkAndGrow(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t)
	for range 40 {
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	f.fanOut(t, "a")
	work := f.take(t, 100)
	if len(work) != 8 {
		t.Fatalf("a new endpoint gets %d at once", len(work))
	}
	for _, w := range work[:2] {
		f.record(t, w, succeeded)
	}
	if grown := f.take(t, 100); len(grown) != 26 { // 32 at once, 6 under way
		t.Errorf("after two successes %d more", len(grown))
	}
	f.record(t, work[2], webhooks.Outcome{State: tollgate.DeliveryRetrying, Next: f.Now().Add(time.Minute), Pause: f.Now().Add(time.Minute), StatusCode: 503})
	if paused := f.take(t, 100); len(paused) != 0 {
		t.Errorf("%d taken from a paused endpoint", len(paused))
	}
	f.Died(t, 2*time.Minute)
	left := f.take(t, 100)
	if len(left) != 1 {
		t.Fatalf("%d taken at once from an endpoint that failed", len(left))
	}
	// The workers of all the others died; everything is delivered all the same.
	for len(left) > 0 {
		for _, w := range left {
			f.record(t, w, succeeded)
		}
		left = f.take(t, 100)
	}
	rows, _, _, err := f.Deliveries(t.Context(), f.Caller, work[0].Endpoint.ID, webhooks.DeliveryQuery{Limit: 100})
	if err != nil || len(rows) != 40 {
		t.Fatalf("%d deliveries, %v", len(rows), err)
	}
	for _, d := range rows {
		if d.State != tollgate.DeliverySucceeded {
			t.Errorf("%+v", d)
		}
	}
}

func TestHeldReplayedRecovered(t *testing.T) {
	f := newFixture(t)
	w := f.endpoint(t)
	since := f.Now()
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	done := f.take(t, 1)[0]
	f.record(t, done, succeeded)
	stale := *w
	stale.Revision--
	for _, c := range []struct {
		attempted tollgate.StoredWebhook
		disabled  bool
	}{{stale, false}, {*w, true}, {*w, false}} {
		if disabled, err := f.disableWebhook(t, c.attempted); disabled != c.disabled || err != nil {
			t.Fatal(disabled, err)
		}
	}
	if got := f.webhook(t, w.ID); got.Status != tollgate.WebhookDisabledStatus || *got.DisabledReason != "gone" || got.Revision != 2 {
		t.Errorf("disabled: %+v", got)
	}
	f.Clock.Advance(time.Second)
	f.Pay(t, eur(200), tollgate.CaptureManual)
	f.fanOut(t, "a")
	if n := f.take(t, 10); len(n) != 0 {
		t.Errorf("%d taken from a disabled endpoint", len(n))
	}
	held, _, _, err := f.Deliveries(t.Context(), f.Caller, w.ID, webhooks.DeliveryQuery{States: []tollgate.DeliveryState{tollgate.DeliveryHeld}, Limit: 10})
	if err != nil || len(held) != 1 {
		t.Fatalf("held: %v %v", held, err)
	}
	f.enable(t, w.ID)
	if n := f.take(t, 10); len(n) != 0 {
		t.Errorf("%d held deliveries sent unasked", len(n))
	}

	recovery := f.recover(t, w.ID, since)
	f.jobs(t)
	r, err := f.Recovery(t.Context(), f.Caller, w.ID, recovery)
	if err != nil || r.State != "succeeded" || r.Queued != 1 || r.Looked < 1 || r.CompletedAt == 0 {
		t.Errorf("recovery: %+v %v", r, err)
	}
	recovered := f.take(t, 10)
	if len(recovered) != 1 || recovered[0].Trigger != tollgate.TriggeredByRecovery || recovered[0].DeliveryID != held[0].ID {
		t.Fatalf("recovered: %+v", recovered)
	}
	if _, err := f.replay(t, w.ID, recovered[0].DeliveryID); code(err) != string(tollgate.CodeDeliveryInProgress) {
		t.Errorf("replay of what is on its way: %v", err)
	}
	f.record(t, recovered[0], succeeded)
	replay, err := f.replay(t, w.ID, done.DeliveryID)
	if err != nil {
		t.Fatal(err)
	}
	replayed := f.take(t, 10)
	if len(replayed) != 1 || replayed[0].Trigger != tollgate.TriggeredByReplay || replayed[0].ReplayID != replay || replayed[0].Number != 2 ||
		replayed[0].Run != 1 || string(replayed[0].Body) != string(done.Body) {
		t.Fatalf("replayed: %+v", replayed)
	}
	f.record(t, replayed[0], succeeded)
	if list := f.attempts(t, done); len(list) != 2 || list[0].ReplayID != nil || *list[1].ReplayID != replay {
		t.Errorf("attempts: %+v", list)
	}
	if d := f.delivery(t, done); d.ReplayCount != 1 || d.State != tollgate.DeliverySucceeded {
		t.Errorf("after the replay: %+v", d)
	}
}

func (f *fixture) jobs(t testing.TB) {
	t.Helper()
	for p := range f.Partitions() {
		for range 3 {
			if f.skip(t, p) {
				continue
			}
			if _, err := f.RunJobs(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDeletedEndpoint(t *testing.T) {
	f := newFixture(t)
	w := f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	work := f.take(t, 1)[0]
	must(t, f.deleteWebhook(t, *f.webhook(t, w.ID)))
	if _, err := f.Webhook(t.Context(), f.Caller, w.ID); code(err) != string(tollgate.CodeNotFound) {
		t.Errorf("read after deletion: %v", err)
	}
	f.record(t, work, webhooks.Outcome{State: tollgate.DeliveryRetrying, Next: f.Now()})
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	if n := f.take(t, 10); len(n) != 0 {
		t.Errorf("%d deliveries of a deleted endpoint", len(n))
	}
	f.jobs(t)
	c, events := f.raw(t)
	prefix := strings.TrimSuffix(events, ":events")
	for _, key := range scanKeys(t, c, prefix+":"+w.ID+"*") {
		t.Errorf("%s is left", key)
	}
	if ttl, err := c.PTTL(t.Context(), prefix+":"+work.DeliveryID).Result(); err != nil || ttl <= 0 {
		t.Errorf("the canceled delivery expires in %v, %v", ttl, err)
	}
}

func TestChangeWebhookComparesRevisions(t *testing.T) {
	f := newFixture(t)
	w := *f.endpoint(t)
	move := func(w *tollgate.WebhookEndpoint) { w.URL = "https://a.example/" }
	if _, err := f.changeWebhook(t, w, move); err != nil {
		t.Fatal(err)
	}
	if _, err := f.changeWebhook(t, w, move); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("from an old revision: %v", err)
	}
	for range tollgate.MaxWebhooks - 1 {
		f.endpoint(t)
	}
	w.ID = f.NewID(tollgate.PrefixWebhook)
	if _, err := f.createWebhook(t, w); code(err) != string(tollgate.CodeQuotaExceeded) {
		t.Errorf("one endpoint too many: %v", err)
	}
	rows, more, err := f.Webhooks(t.Context(), f.Caller, "", 30)
	if err != nil || !more || len(rows) != 30 {
		t.Fatalf("%d endpoints, more %v, %v", len(rows), more, err)
	}
	rest, more, err := f.Webhooks(t.Context(), f.Caller, rows[29].ID, 30)
	if err != nil || more || len(rest) != tollgate.MaxWebhooks-30 {
		t.Errorf("%d more, more %v, %v", len(rest), more, err)
	}
}

// The group is destroyed and workers come and go: every event gets its one
// delivery.
func TestFanOutSurvives(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	w := f.endpoint(t)
	const events = 60
	var g sync.WaitGroup
	for range 3 {
		g.Go(func() {
			for range events / 3 {
				f.Pay(t, eur(100), tollgate.CaptureManual)
			}
		})
	}
	f.fanOut(t, "a")
	c, key := f.raw(t)
	group := strings.Split(key, ":")[0] + ":dispatch"
	if err := c.XGroupDestroy(t.Context(), group, "workers").Err(); err != nil {
		t.Fatal(err)
	}
	g.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for {
		f.fanOut(t, "b")
		f.fanOut(t, "c")
		rows, _, _, err := f.Deliveries(t.Context(), f.Caller, w.ID, webhooks.DeliveryQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, d := range rows {
			ids[d.EventID] = true
		}
		if len(ids) == events {
			if len(rows) != events {
				t.Errorf("%d deliveries of %d events", len(rows), events)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d events have a delivery", len(ids), events)
		}
	}
}

func TestTrimKeepsWhatIsNotDelivered(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	work := f.take(t, 1)[0]
	f.Pay(t, eur(100), tollgate.CaptureManual) // not handed over
	c, key := f.raw(t)
	length := func() int64 {
		n, err := c.XLen(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	trim := func() {
		for p := range f.Partitions() {
			if !f.skip(t, p) {
				if _, err := f.TrimEvents(t.Context(), p, tollgate.At(time.Now().Add(time.Hour))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	before := length()
	trim()
	if n := length(); n != before {
		t.Errorf("%d events trimmed with a delivery open", before-n)
	}
	f.record(t, work, succeeded)
	trim()
	if n := length(); n == 0 {
		t.Error("an event was trimmed that is still to be handed over")
	}
	f.fanOut(t, "a")
	for _, w := range f.take(t, 10) {
		f.record(t, w, succeeded)
	}
	listed := func() int {
		rows, _, _, err := f.Deliveries(t.Context(), f.Caller, work.Endpoint.ID, webhooks.DeliveryQuery{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	if n := listed(); n != 1 {
		t.Errorf("%d deliveries are listed", n)
	}
	f.NextMilli(t)
	newest := f.Pay(t, eur(100), tollgate.CaptureManual) // whose event stays, with its delivery
	f.fanOut(t, "a")
	for _, w := range f.take(t, 10) {
		f.record(t, w, succeeded)
	}
	trim()
	left, err := c.XRange(t.Context(), key, "-", "+").Result()
	if err != nil || len(left) != 1 || !strings.Contains(rediskv.Text(left[0], "b"), newest.ID) {
		t.Errorf("events that are left: %v, %v", left, err)
	}
	if n := listed(); n != 1 {
		t.Errorf("%d deliveries are listed, and one event is left", n)
	}
}

// A worker that lives and has had nothing to do for long looks as one that is
// gone. What it takes while that is looked at is not lost when it dies.
func TestForgetConsumersKeepsWhatIsTaken(t *testing.T) {
	f := newFixture(t)
	server := rawClient(t, f.URL)
	export := tollgate.Export{
		Object: "export", ID: f.NewID(tollgate.PrefixExport), CreatedAt: f.Now(),
		Dataset: tollgate.DatasetPayments, Format: tollgate.FormatCSV, Status: tollgate.ExportStatusPending,
	}
	take := func(partition int, consumer string) bool {
		j, err := f.NextExport(t.Context(), partition, consumer, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return j != nil && j.ID == export.ID
	}
	partition, looks := -1, 0
	s := f.observed(t, f.URL, func(operation string) {
		if operation != "idle_consumers" {
			return
		}
		if looks++; looks != 2 { // the stream of events is looked at first
			return
		}
		var err error
		export, err = f.newExport(t)
		must(t, err)
		for p := range f.Partitions() {
			if take(p, "living") {
				partition = p
			}
		}
	})
	_, key := f.raw(t)
	tag, _, _ := strings.Cut(key, ":")
	own, err := strconv.Atoi(strings.Trim(tag, "{p}"))
	if err != nil {
		t.Fatal(err)
	}
	stream := tag + ":exports"
	if err := server.XGroupCreateMkStream(t.Context(), stream, "workers", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := server.XGroupCreateConsumer(t.Context(), stream, "workers", "living").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetConsumers(t.Context(), own, 0); err != nil {
		t.Fatal(err)
	}
	if partition != own {
		t.Fatalf("the export was taken in partition %d, not %d", partition, own)
	}
	if !take(own, "next") {
		t.Error("nobody finds the export of a worker that died")
	}
}

// Workers come and go; the group keeps those that live or leave work behind.
func TestForgetConsumers(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t)
	for _, name := range []string{"a", "b", "c"} {
		f.Pay(t, eur(100), tollgate.CaptureManual)
		f.fanOut(t, name)
	}
	c, key := f.raw(t)
	group := strings.Split(key, ":")[0] + ":dispatch"
	consumers := func() int {
		list, err := c.XInfoConsumers(t.Context(), group, "workers").Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	forget := func(idle time.Duration) {
		for p := range f.Partitions() {
			if err := f.ForgetConsumers(t.Context(), p, idle); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget(time.Hour)
	if n := consumers(); n < 3 {
		t.Errorf("%d consumers, and three have read just now", n)
	}
	forget(0)
	if redistest.Kind(t) == redistest.Miniredis {
		return // it goes on counting acknowledged entries as pending
	}
	if n := consumers(); n != 0 {
		t.Errorf("%d idle consumers are left", n)
	}
}
