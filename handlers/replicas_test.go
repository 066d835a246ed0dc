package handlers_test

import (
	"testing"
	"time"

	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// TestRepeatWithoutReplicas: a capture that was made, and that too few replicas have yet,
// is not refused when it is repeated because it was made.
func TestRepeatWithoutReplicas(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Replicated(t)
	w := newWorldOn(t, primary.URL, newRecorder(t))
	replica.Follow(primary)
	w.store = openWith(t, rediskv.Options{URL: w.redis, Clock: w.service, WaitReplicas: 1, Timeout: 4 * time.Second})
	w.serve()
	body := `{"merchant_account_id":"` + w.vars["wide"] + `","amount":"10.00","currency":"EUR","payee":"shop.example"}`
	testkit.Eventually(t, "the replica follows", func() bool { return w.pay("first", body).StatusCode == 201 })
	path := "/v1/payments/" + w.get(w.want(w.pay("pay", body), 201, ""), "id") + "/captures"
	capture := func() reply { return w.call("POST", path, `{"amount":"10.00"}`, "Idempotency-Key", "capture") }
	replica.Unfollow()
	testkit.Eventually(t, "the replica is missed", func() bool { return w.pay("missed", body).StatusCode == 503 })
	for range 2 {
		w.want(capture(), 503, "store_unavailable") // nobody knows yet what becomes of it
	}
	replica.Follow(primary)
	testkit.Eventually(t, "it is acknowledged", func() bool { return capture().StatusCode == 201 })
	if r := capture(); r.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("it was made again: %s", r.text)
	}
}
