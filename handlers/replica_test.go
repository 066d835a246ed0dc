package handlers_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// regions is an instance beside the primary, and one beside a replica.
func regions(t *testing.T) (far, near *world, primary, replica *redistest.Server) {
	t.Helper()
	primary, replica = redistest.Replicated(t)
	far = newWorldOn(t, primary.URL, newRecorder(t))
	replica.Follow(primary)
	near = far.aloneWith(rediskv.Options{Replica: replica.URL, MaxLag: time.Hour})
	near.tokens["all "] = far.token("all", "")
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go near.store.FollowReplica(ctx)
	near.served(t, "replica", "GET", "/v1/payments")
	return far, near, primary, replica
}

// served waits until a read is answered by somebody.
func (w *world) served(t *testing.T, by, method, path string, headers ...string) (r reply) {
	t.Helper()
	testkit.Eventually(t, path+" is served by the "+by, func() bool {
		r = w.call(method, path, "", headers...)
		return r.Header.Get("Tollgate-Served-By") == by
	})
	return r
}

// withoutCursor is a body without what is encrypted anew each time.
func withoutCursor(r reply) map[string]any {
	delete(r.body, "next_cursor")
	return r.body
}

// A client that was told of a write reads it, wherever it asks.
func TestReplicaReads(t *testing.T) {
	far, near, primary, replica := regions(t)
	body := fmt.Sprintf(payWide, far.vars["eur"])
	made := far.want(far.call("POST", "/v1/payments", body, "Idempotency-Key", "a"), 201, "")
	revision := made.Header.Get("Tollgate-Revision")
	again := far.want(far.call("POST", "/v1/payments", body, "Idempotency-Key", "a"), 201, "")
	if n, err := strconv.Atoi(revision); err != nil || n < 1 || again.Header.Get("Tollgate-Revision") != revision {
		t.Errorf("revision %q, repeated %q", revision, again.Header.Get("Tollgate-Revision"))
	}
	if r := far.call("GET", "/v1/payments", ""); r.Header.Get("Tollgate-Served-By") != "primary" || r.Header.Get("Tollgate-Revision") != "" {
		t.Errorf("a read is answered with %v", r.Header)
	}
	if far.observed.of("read by replica") == 0 || far.observed.of("read by primary") == 0 { // of both
		t.Errorf("observed: %v", far.observed.requests())
	}
	id := far.get(made, "id")
	if r := near.served(t, "replica", "GET", "/v1/payments/"+id, "Tollgate-Min-Revision", revision); r.StatusCode != 200 || near.get(r, "id") != id {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}

	replica.Unfollow()
	later := far.want(far.call("POST", "/v1/payments/"+id+"/captures", "", "Idempotency-Key", "b"), 201, "").Header.Get("Tollgate-Revision")
	paths := []string{"/v1/payments/" + id, "/v1/payments", "/v1/transactions", "/v1/tickets/" + tollgate.TicketOf(id), "/v1/events?object_id=" + id}
	for _, path := range paths {
		if r := near.call("GET", path, "", "Tollgate-Min-Revision", revision); r.StatusCode != 200 || r.Header.Get("Tollgate-Served-By") != "replica" {
			t.Errorf("%s: %d by %q", path, r.StatusCode, r.Header.Get("Tollgate-Served-By"))
		}
		want := far.call("GET", path, "")
		if r := near.call("GET", path, "", "Tollgate-Min-Revision", later); !reflect.DeepEqual(withoutCursor(r), withoutCursor(want)) || r.Header.Get("Tollgate-Served-By") != "primary" {
			t.Errorf("%s of revision %s: %d by %q\n%s\n%s", path, later, r.StatusCode, r.Header.Get("Tollgate-Served-By"), r.text, want.text)
		}
	}
	// What the replica does not have may be there.
	other := far.get(far.want(far.call("POST", "/v1/payments", body, "Idempotency-Key", "c"), 201, ""), "id")
	if r := near.want(near.call("GET", "/v1/payments/"+other, ""), 200, ""); r.Header.Get("Tollgate-Served-By") != "primary" {
		t.Errorf("a payment that the replica does not have is served by %q", r.Header.Get("Tollgate-Served-By"))
	}
	// An event log goes on where it was.
	tail := far.get(far.call("GET", "/v1/events?after=latest", ""), "next_cursor")
	if r := near.want(near.call("GET", "/v1/events?cursor="+tail, ""), 200, ""); r.Header.Get("Tollgate-Served-By") != "replica" || len(r.body["data"].([]any)) != 0 {
		t.Errorf("a cursor ahead of the replica: %v %s", r.Header, r.text)
	} else if r = far.call("GET", "/v1/events?cursor="+near.get(r, "next_cursor"), ""); len(r.body["data"].([]any)) != 0 {
		t.Errorf("it has gone back: %s", r.text)
	}
	// An instance reads what it has acknowledged itself.
	own := near.get(near.want(near.call("POST", "/v1/payments", body, "Idempotency-Key", "d"), 201, ""), "id")
	if r := near.want(near.call("GET", "/v1/payments", ""), 200, ""); r.Header.Get("Tollgate-Served-By") != "primary" || !strings.Contains(r.text, own) {
		t.Errorf("after its own payment: %v %s", r.Header, r.text)
	}
	for _, wrong := range []string{"-1", "x", "1.0", "01", "9223372036854775808"} {
		near.want(near.call("GET", "/v1/payments", "", "Tollgate-Min-Revision", wrong), 400, "parameter_invalid")
	}
	replica.Follow(primary)
	near.served(t, "replica", "GET", "/v1/payments/"+own)
}

// A replica that is cut off knows nothing of a change, and no payment is made with
// what it says.
func TestReplicaIsCutOffAndTheAccountChanges(t *testing.T) {
	far, near, _, replica := regions(t)
	replica.Unfollow()
	far.account("eur").Status = "paused"
	far.apply("")
	body := fmt.Sprintf(payWide, far.vars["eur"])
	near.want(near.call("POST", "/v1/quotes", body), 200, "") // the first contact: as it was
	near.want(near.call("POST", "/v1/payments", body, "Idempotency-Key", "a"), 409, "merchant_account_inactive")
	near.want(near.call("POST", "/v1/quotes", body), 409, "merchant_account_inactive")
}

// A token of a grant that has changed is good, although the replica knows the grant
// as it was.
func TestReplicaKnowsAnEarlierGrant(t *testing.T) {
	far, near, _, replica := regions(t)
	replica.Unfollow()
	far.grant("reader").Scopes = append(far.grant("reader").Scopes, "events:read")
	far.apply("")
	delete(far.tokens, "reader ")
	near.tokens["reader "] = far.token("reader", "")
	if !near.active("reader", near.tokens["reader "]) {
		t.Error("the token of the later grant is not active")
	}
	if r := near.call("GET", "/v1/payments", "", "Authorization", "Bearer "+near.tokens["reader "]); r.StatusCode != http.StatusOK {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
}

// TestReplicaReadsAreCountedHere: the primary hears nothing of them, so the instance
// counts them itself.
func TestReplicaReadsAreCountedHere(t *testing.T) {
	far, near, _, _ := regions(t)
	near.limit("quotes=1/h,burst=2,reads=5/h")
	for n := range 2 {
		r := near.want(near.call("GET", "/v1/payments", ""), 200, "")
		if kind, _, _, left, _ := rateLimit(t, r.Header); kind != "quotes" || left != 1-n || r.Header.Get("Tollgate-Served-By") != "replica" {
			t.Errorf("read %d counts as %s, %d left, by %q", n, kind, left, r.Header.Get("Tollgate-Served-By"))
		}
	}
	near.want(near.call("GET", "/v1/payments", ""), 429, "rate_limited")
	if counted := far.buckets(); len(counted) != 0 {
		t.Errorf("the primary counted %v", counted)
	}
	near.want(near.call("GET", "/v1/payments", "", "Tollgate-Min-Revision", "999999"), 200, "") // by the primary, which counts it
	if counted := far.buckets(); len(counted) != 1 {
		t.Errorf("the primary counted %v", counted)
	}
}
