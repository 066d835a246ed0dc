package rediskv_test

import (
	"strings"
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

// TestPaymentsAreFolded: in whichever layout a payment was made, one that is changed in the
// dense one is folded, and one that is folded stays so, whoever changes it. Its counters stay.
func TestPaymentsAreFolded(t *testing.T) {
	for _, made := range []rediskv.Layout{rediskv.Together, rediskv.Compact, rediskv.Dense} {
		for _, changed := range []rediskv.Layout{rediskv.Together, rediskv.Compact, rediskv.Dense} {
			f := newFixture(t)
			raw, _ := f.raw(t)
			f.limited(t, `{"budgets":[{"window":"day","currency":"EUR","amount":"100.00","per":"payee"}]}`)
			must(t, f.WriteLayout(t.Context(), made))
			p := f.Pay(t, eur(1000), tollgate.CaptureManual)
			key := f.Space(f.Caller.Organization).Object(p.ID)
			counter := raw.HGet(t.Context(), key, "use0").Val()
			must(t, f.WriteLayout(t.Context(), changed))
			must(t, f.Capture(t.Context(), p.ID, 400, false))
			must(t, f.Capture(t.Context(), p.ID, 600, true))
			hash, err := raw.HGetAll(t.Context(), key).Result()
			must(t, err)
			whole := len(hash["crt"]) > 0 && len(hash["st"]) > 0 && len(hash["e"]) > 0 && hash["p"] == ""
			folded := hash["crt"]+hash["st"]+hash["e"]+hash["due"] == "" && hash["p"] != "" && hash["v"] == "3"
			if dense := made == rediskv.Dense || changed == rediskv.Dense; folded != dense || whole == dense || counter == "" || hash["use0"] != counter {
				t.Errorf("made in %d, changed in %d: %q, and %q before", made, changed, hash, counter)
			}
			if is, _ := f.Read(t, p.ID); is.Status != tollgate.Captured || is.AmountCaptured != eur(1000) {
				t.Errorf("made in %d, changed in %d: %+v", made, changed, is)
			}
			testkit.Consistent(t, f.Store)
		}
	}
}

// TestFoldedPaymentsShrink: of what was folded before, no piece stays that is not needed any
// more.
func TestFoldedPaymentsShrink(t *testing.T) {
	f := newFixture(t)
	raw, _ := f.raw(t)
	shrunk := 0
	for n := range 64 {
		ch, ans := f.Draft(t, f.MerchantAccount(t), eur(1000), "shop.example", tollgate.CaptureManual)
		text := strings.Repeat("x", n+1)
		ch.Payment.Description = &text
		_, err := f.CreatePayment(t.Context(), f.Caller, f.Key(text), f.MerchantAccount(t), ch, ans)
		must(t, err)
		key := f.Space(f.Caller.Organization).Object(ch.Payment.ID)
		must(t, f.Capture(t.Context(), ch.Payment.ID, 400, false))
		before := raw.HLen(t.Context(), key).Val()
		must(t, f.Capture(t.Context(), ch.Payment.ID, 600, false))
		if raw.HLen(t.Context(), key).Val() < before-1 { // it has no deadline any more
			shrunk++
		}
		if p, _ := f.Read(t, ch.Payment.ID); p.Status != tollgate.Captured || *p.Description != text {
			t.Errorf("%+v", p)
		}
	}
	if shrunk == 0 {
		t.Error("none has fewer pieces than before")
	}
	testkit.Consistent(t, f.Store)
}
