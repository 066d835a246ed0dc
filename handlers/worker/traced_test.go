package worker_test

import (
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
	"tollgate/rediskv/webhooks"
)

// The trace of a request goes on into the delivery that it caused: the tracer is given
// it, and the receiver gets the attempt's. The event stays as it is. What nobody traced
// has no span and no header.
func TestTraceGoesOnIntoTheDelivery(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	const cause, own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"
	given, ended := make(chan webhooks.Work, 10), make(chan delivery.Sent, 10)
	s.work(t, worker.Config{Tracer: func(w webhooks.Work) (string, func(delivery.Sent)) {
		given <- w
		return own, func(sent delivery.Sent) { ended <- sent }
	}})
	s.pay(t, 1000)
	s.settled(t, hook, tollgate.DeliverySucceeded, 1)
	if got := in.all(); len(got) != 1 || got[0].header.Get("Traceparent") != "" || len(given) != 0 {
		t.Errorf("without a trace: %v, %d spans", got, len(given))
	}

	s.Caller.Trace = cause
	s.pay(t, 2000)
	until(t, "the second delivery", func() bool { return len(in.all()) == 2 })
	got := in.all()[1]
	if got.header.Get("Traceparent") != own {
		t.Errorf("the receiver got %q", got.header.Get("Traceparent"))
	}
	if w := next(t, given); w.Trace != cause || w.EventID != got.header.Get("Webhook-Id") {
		t.Errorf("the tracer got %q of %s", w.Trace, w.EventID)
	}
	if sent := next(t, ended); !sent.Succeeded() {
		t.Errorf("%+v", sent)
	}
	events, _, _, err := s.Events(t.Context(), s.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{"payment.*"}, Limit: 10})
	if err != nil || len(events) != 2 {
		t.Fatal(len(events), err)
	}
	for _, e := range events {
		if strings.Contains(string(e), "4bf92f3577b34da6a3ce929d0e0e4736") {
			t.Errorf("the event tells of the trace: %s", e)
		}
	}
	testkit.Consistent(t, s.Store)
}

// next is what comes from a channel, which must not keep a test for ever.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(redistest.Patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
