package rediskv_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

var cards = []tollgate.RuleRef{testkit.CardFee}

// replicated is a shop on a server with a replica, which follows, and a Store of
// another process that reads from both.
func replicated(t *testing.T) (shop *testkit.Shop, other *store.Store, primary, replica *redistest.Server) {
	t.Helper()
	primary, replica = redistest.Replicated(t)
	shop = testkit.NewShop(t, rediskv.Options{URL: primary.URL, Rules: cards}, testkit.NewClock(), nil)
	replica.Follow(primary)
	shop = shop.With(t, rediskv.Options{Rules: cards, Replica: replica.URL, MaxLag: time.Hour})
	other = shop.With(t, rediskv.Options{Rules: cards, Replica: replica.URL, MaxLag: time.Hour}).Store
	for _, s := range []*store.Store{shop.Store, other} {
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		go s.FollowReplica(ctx)
	}
	org := shop.Caller.Organization
	testkit.Eventually(t, "the replica is read", func() bool { return other.Near(t.Context(), org, 0) != nil && shop.Near(t.Context(), org, 0) != nil })
	return shop, other, primary, replica
}

// A process reads from a replica what it and its clients have seen, or not at all.
func TestReplicaHasWhatWasAcknowledged(t *testing.T) {
	shop, other, primary, replica := replicated(t)
	ctx, org := t.Context(), shop.Caller.Organization
	var revision int64
	shop.Caller.Revision = &revision
	first := shop.Pay(t, testkit.EUR(1000), tollgate.CaptureManual)
	if revision == 0 {
		t.Fatal("a payment has no revision")
	}
	testkit.Eventually(t, "the replica has it", func() bool { return shop.Near(ctx, org, 0) != nil && other.Near(ctx, org, revision) != nil })
	p, _, err := other.Near(ctx, org, revision).Payment(ctx, shop.Caller, first.ID)
	if err != nil || p.ID != first.ID {
		t.Fatalf("%v %v", p, err)
	}

	replica.Unfollow()
	before := revision
	second := shop.Pay(t, testkit.EUR(2000), tollgate.CaptureManual)
	if revision <= before {
		t.Errorf("revision %d after %d", revision, before)
	}
	if shop.Near(ctx, org, 0) != nil {
		t.Error("the process that made a payment reads where it is not")
	}
	if other.Near(ctx, org, revision) != nil {
		t.Error("a client that has seen a payment is read where it is not")
	}
	near := other.Near(ctx, org, before)
	if near == nil {
		t.Fatal("the replica has all that was asked for, and is not read")
	}
	if _, _, err := near.Payment(ctx, shop.Caller, second.ID); testkit.Code(err) != string(tollgate.CodeNotFound) {
		t.Errorf("the replica was cut off, and has it: %v", err)
	}

	// A cursor that is ahead of the replica stays where it is.
	newest, err := shop.LastEvent(ctx, shop.Caller)
	if err != nil {
		t.Fatal(err)
	}
	events, next, more, err := near.Events(ctx, shop.Caller, eventlog.EventQuery{After: newest, Limit: 10})
	if err != nil || len(events) > 0 || next != newest || more {
		t.Errorf("behind %v: %d events, next %v, more %v, %v", newest, len(events), next, more, err)
	}
	lost, err := near.LastEvent(ctx, shop.Caller)
	if err != nil {
		t.Fatal(err)
	}
	lost.Check = [4]byte{} // another event than the one that is there
	if _, _, _, err := near.Events(ctx, shop.Caller, eventlog.EventQuery{After: lost, Limit: 10}); err == nil || rediskv.Away(err) {
		t.Errorf("what has become of an event is for the primary to say: %v", err)
	}

	// What is written is written to the primary.
	if err := near.Audit(ctx, shop.Caller, tollgate.AuditEntry{Type: "payment.read", Outcome: "refused"}); err != nil {
		t.Errorf("a write of a view: %v", err)
	}

	replica.Follow(primary)
	testkit.Eventually(t, "the replica has caught up", func() bool { return other.Near(ctx, org, revision) != nil && shop.Near(ctx, org, 0) != nil })
}

// Configuration comes from a replica on first contact, and is compared when it is
// used; from then on it comes from the primary.
func TestReplicaOnFirstContact(t *testing.T) {
	shop, other, _, replica := replicated(t)
	ctx, org, id := t.Context(), shop.Caller.Organization, shop.Config.MerchantAccounts[0].ID
	replica.Unfollow()
	shop.Config.MerchantAccounts[0].Status = tollgate.StatusClosed
	if _, err := redistest.Provision(ctx, shop.Store, shop.Config, false); err != nil {
		t.Fatal(err)
	}
	through := shop.Through(other)
	a, err := other.Account(ctx, org, id)
	if err != nil || !a.Active() {
		t.Fatalf("the first contact is not the replica's: %v", err)
	}
	ch, ans := through.Draft(t, a, testkit.EUR(1000), "shop.example", tollgate.CaptureManual)
	if _, err := other.CreatePayment(ctx, shop.Caller, through.Key("k"), a, ch, ans); !errors.Is(err, rediskv.ErrStale) {
		t.Fatalf("a payment of a closed account: %v", err)
	}
	view := other.Near(ctx, org, 0)
	other.Refresh(org)
	if _, err := view.Account(ctx, org, id); err == nil {
		t.Error("what has changed is read from the replica")
	}
	if a, err = other.Account(ctx, org, id); err != nil || a.Active() {
		t.Errorf("after the refusal the account is %v, %v", a, err)
	}
	if other.Near(ctx, org, 0) != nil {
		t.Error("an organization that has just changed is read from the replica")
	}
	shop.Clock.Advance(2 * time.Hour)
	testkit.Eventually(t, "it is read there again", func() bool { return other.Near(ctx, org, 0) != nil })
	if a, err = other.Account(ctx, org, id); err != nil || a.Active() {
		t.Errorf("what was known better came from the replica again: %v, %v", a, err)
	}
}

// A replica that is too far behind, or is away, is not read.
func TestReplicaTooFarBehind(t *testing.T) {
	t.Parallel()
	shop, _, _, replica := replicated(t)
	ctx, org := t.Context(), shop.Caller.Organization
	near := shop.With(t, rediskv.Options{Rules: cards, Replica: replica.URL, MaxLag: 300 * time.Millisecond}).Store
	if near.Near(ctx, org, 0) != nil {
		t.Error("it is read although nobody knows how far behind it is")
	}
	if lag, configured := near.ReplicaLag(); !configured || !math.IsInf(lag, 1) {
		t.Errorf("it is %v s behind, and nobody knows", lag)
	}
	go near.FollowReplica(ctx)
	testkit.Eventually(t, "it is read", func() bool { return near.Near(ctx, org, 0) != nil })
	replica.Unfollow()
	testkit.Eventually(t, "it is too far behind", func() bool { return near.Near(ctx, org, 0) == nil })
	if lag, _ := near.ReplicaLag(); lag < 0.3 {
		t.Errorf("it is %v s behind", lag)
	}
	if _, configured := shop.With(t, rediskv.Options{Rules: cards}).Store.ReplicaLag(); configured {
		t.Error("there is no replica, and it has a lag")
	}
	if shop.Near(ctx, org, 0) == nil {
		t.Error("for a process that takes an hour it is not")
	}
	view := shop.Near(ctx, org, 0)
	replica.Kill()
	if _, _, err := view.Payment(ctx, shop.Caller, "pay_x"); !rediskv.Away(err) {
		t.Errorf("a replica that is away: %v", err)
	}
	if shop.Near(ctx, org, 0) != nil {
		t.Error("a replica that has just failed to answer is read again")
	}
	shop.Pay(t, testkit.EUR(1000), tollgate.CaptureManual)
}
