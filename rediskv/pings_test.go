package rediskv_test

import (
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
)

// A ping is of no event and holds no part of the log: neither one that is on its
// way nor one that is held, which goes in the end, nor one that is replayed.
func TestPingsHoldNothing(t *testing.T) {
	f := newFixture(t)
	w, off := f.endpoint(t), f.endpoint(t, "payout.paid")
	if _, err := f.disableWebhook(t, *off); err != nil {
		t.Fatal(err)
	}
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	for _, work := range f.take(t, 10) {
		f.record(t, work, succeeded)
	}
	ping := func(webhook string) string {
		t.Helper()
		p, err := tollgate.PingWebhook(f.NewID, f.Origin(f.Caller), f.webhook(t, webhook))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.CommitPing(t.Context(), f.Caller, nil, p, rediskv.Answer{Status: 202}); err != nil {
			t.Fatal(err)
		}
		return tollgate.DeliveryOf(p.Event.ID, webhook)
	}
	sent, held, replayed := ping(w.ID), ping(off.ID), ping(off.ID)
	if _, err := f.replay(t, off.ID, replayed); err != nil {
		t.Fatal(err)
	}
	c, events := f.raw(t)
	for id, kept := range map[string]bool{sent: true, held: false, replayed: true} {
		if ttl, err := c.PTTL(t.Context(), strings.TrimSuffix(events, "events")+id).Result(); err != nil || (ttl < 0) != kept {
			t.Errorf("%s is kept for %s, %v", id, ttl, err)
		}
	}
	var removed int64
	for p := range f.Partitions() {
		n, err := f.TrimEvents(t.Context(), p, tollgate.At(time.Now().Add(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		removed += n
	}
	if removed == 0 {
		t.Error("nothing is trimmed")
	}
	if work := f.take(t, 10); len(work) != 1 || work[0].DeliveryID != sent || len(work[0].Body) == 0 {
		t.Errorf("taken: %+v", work)
	}
}
