package handlers_test

import "testing"

// TestRepeatedReleaseOfWhatIsHeldAgain: a payout may be held again after it was
// released. The key of the first release is answered as any repeat is, with an
// entry in the audit record, and releases nothing.
func TestRepeatedReleaseOfWhatIsHeldAgain(t *testing.T) {
	w := newWorld(t)
	w.want(w.pay("paid", `{"merchant_account_id":"`+w.vars["wide"]+`","amount":"100.00","currency":"EUR","payee":"shop.example","capture_method":"automatic"}`), 201, "")
	held := w.payOut("wide")
	release := func() reply {
		return w.want(w.call("POST", "/v1/payouts/"+held+"/release", `{"reason":"looked at"}`, "Idempotency-Key", "k"), 200, "")
	}
	first := release()
	if again := w.payOut("wide"); again != held {
		t.Fatalf("held again: %q, not %q", again, held)
	}
	entries := w.recorded("request.repeated")
	if r := release(); r.text != first.text || r.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("repeated: %s", r.text)
	}
	if n := w.recorded("request.repeated") - entries; n != 1 {
		t.Errorf("%d audit entries of the repeat", n)
	}
	if r := w.want(w.call("GET", "/v1/payouts/"+held, ""), 200, ""); w.get(r, "status") != "held" {
		t.Errorf("the repeat released it: %s", r.text)
	}
}
