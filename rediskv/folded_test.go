package rediskv_test

import (
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/testkit"
	"tollgate/rediskv/webhooks"
)

// TestAttemptsStandWithTheirDelivery: in whichever layout a delivery was made, and in
// whichever its attempts end, they are read, and stand where the delivery says.
func TestAttemptsStandWithTheirDelivery(t *testing.T) {
	for _, made := range []rediskv.Layout{rediskv.Together, rediskv.Compact, rediskv.Dense} {
		for _, ended := range []rediskv.Layout{rediskv.Compact, rediskv.Dense} {
			f := newFixture(t)
			raw, _ := f.raw(t)
			must(t, f.WriteLayout(t.Context(), made))
			f.endpoint(t)
			f.Pay(t, eur(100), tollgate.CaptureManual)
			f.fanOut(t, "a")
			must(t, f.WriteLayout(t.Context(), ended))
			first := f.by(t, 0).take(t, 1)[0] // whoever has made it does not read it
			f.record(t, first, webhooks.Outcome{State: tollgate.DeliveryRetrying, StatusCode: 500, Reason: "http_500", Next: f.Now().Add(time.Minute)})
			f.Clock.Advance(2 * time.Minute)
			second := f.take(t, 1)[0]
			f.record(t, second, succeeded)
			if list := f.attempts(t, second); len(list) != 2 || list[0].Number != 1 || list[1].Status != tollgate.AttemptSucceeded {
				t.Errorf("made in %d, ended in %d: %+v", made, ended, list)
			}
			k := f.Space(f.Caller.Organization)
			hash, err := raw.HGetAll(t.Context(), k.Object(second.DeliveryID)).Result()
			must(t, err)
			apart, err := raw.HLen(t.Context(), k.Attempts(second.DeliveryID)).Result()
			must(t, err)
			if _, within := hash["2"]; within != (made == rediskv.Dense) || within != (hash[record.FoldField] != "") || (apart > 0) == within {
				t.Errorf("made in %d, ended in %d: %d apart, %q", made, ended, apart, hash)
			}
			if left := raw.PTTL(t.Context(), k.Object(second.DeliveryID)).Val(); left <= 0 {
				t.Errorf("made in %d: it never expires", made)
			}
			testkit.Consistent(t, f.Store)
		}
	}
}

// TestLateAttemptOfAnExpiredDelivery: what comes when the delivery has gone leaves nothing
// that would never expire.
func TestLateAttemptOfAnExpiredDelivery(t *testing.T) {
	f := newFixture(t)
	raw, _ := f.raw(t)
	f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	work := f.take(t, 1)[0]
	key := f.Space(f.Caller.Organization).Object(work.DeliveryID)
	f.record(t, work, succeeded)
	must(t, raw.Del(t.Context(), key).Err())
	if late := f.record(t, work, succeeded); !late || len(scanKeys(t, raw, key+"*")) > 0 {
		t.Errorf("late: %v, %v", late, scanKeys(t, raw, key+"*"))
	}
}
