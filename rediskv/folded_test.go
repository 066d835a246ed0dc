package rediskv_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks"
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

// TestDeliveriesThatHaveSucceeded: what a delivery leaves to its last attempt is read as if it
// stood there, also when it is sent again; and recording that attempt once more is not late.
func TestDeliveriesThatHaveSucceeded(t *testing.T) {
	outcomes := []webhooks.Outcome{
		{State: tollgate.DeliveryRetrying, StatusCode: 500, Reason: "http_500", Next: 1},
		{State: tollgate.DeliverySucceeded, StatusCode: 204},
		succeeded,
		{State: tollgate.DeliveryFailed, StatusCode: 410, Reason: "http_410"},
		succeeded,
	}
	life := func(l rediskv.Layout) (seen []string) {
		f := newFixture(t)
		raw, _ := f.raw(t)
		must(t, f.WriteLayout(t.Context(), l))
		w := f.endpoint(t)
		f.Pay(t, eur(100), tollgate.CaptureManual)
		f.fanOut(t, "a")
		for n, o := range outcomes {
			work := f.take(t, 1)[0]
			see := func() {
				d := *f.delivery(t, work)
				d.ID, d.WebhookID, d.EventID = "", "", ""
				text, err := json.Marshal(d)
				must(t, err)
				seen = append(seen, string(text))
			}
			see()
			if o.Next != 0 {
				o.Next = f.Now().Add(time.Minute)
			}
			for range 2 {
				if late := f.record(t, work, o); late {
					t.Errorf("layout %d: attempt %d is late", l, n+1)
				}
				see()
			}
			hash, err := raw.HGetAll(t.Context(), f.Space(f.Caller.Organization).Object(work.DeliveryID)).Result()
			must(t, err)
			if left := hash["lat"]+hash["cat"]+hash["code"]+hash["trig"]+hash["done"] == ""; left != (l == rediskv.Dense && o.State == tollgate.DeliverySucceeded) {
				t.Errorf("layout %d: after attempt %d there is %q", l, n+1, hash)
			}
			testkit.Consistent(t, f.Store)
			f.Clock.Advance(2 * time.Minute)
			if o.Next == 0 {
				_, err := f.replay(t, w.ID, work.DeliveryID)
				must(t, err)
				see()
			}
			f.Clock.Advance(time.Minute)
		}
		return seen
	}
	is, was := life(rediskv.Dense), life(rediskv.Compact)
	for i := range was {
		if i >= len(is) || is[i] != was[i] {
			t.Fatalf("%d: it is read as\n%s, and elsewhere as\n%s", i, is[i], was[i])
		}
	}
}

// TestLastAttemptThatIsDamaged: a delivery that leaves to it what became of it says that it
// cannot be read, and is not sent again.
func TestLastAttemptThatIsDamaged(t *testing.T) {
	f := newFixture(t)
	raw, _ := f.raw(t)
	w := f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	work := f.take(t, 1)[0]
	f.record(t, work, succeeded)
	key := f.Space(f.Caller.Organization).Object(work.DeliveryID)
	text := raw.HGet(t.Context(), key, "1").Val()
	for name, value := range map[string]string{"1": text[:len(text)-1] + "?", "n": "2", "st": "succeedee"} {
		was := raw.HGet(t.Context(), key, name).Val()
		must(t, raw.HSet(t.Context(), key, name, value).Err())
		if _, err := f.Delivery(t.Context(), f.Caller, w.ID, work.DeliveryID); !rediskv.IsDamage(err) {
			t.Errorf("%s is %q: %v", name, value, err)
		}
		says := func(f checks.Finding) bool {
			return name != "n" || strings.Contains(f.Message, "its attempt 2 does not say so")
		}
		if !slices.ContainsFunc(testkit.Findings(t, f.Store), says) {
			t.Errorf("%s is %q, and no check finds it", name, value)
		}
		must(t, raw.HSet(t.Context(), key, name, was).Err())
	}
	// Somebody has sent it meanwhile: what was read is not what its last attempt says.
	r, err := tollgate.ReplayDelivery(f.NewID, f.Origin(f.Caller), *f.delivery(t, work), nil)
	must(t, err)
	must(t, raw.HSet(t.Context(), key, "n", "2").Err())
	if _, err := f.CommitReplay(t.Context(), f.Caller, nil, r, rediskv.Answer{Status: 202}); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("replayed with another attempt: %v", err)
	}
}
