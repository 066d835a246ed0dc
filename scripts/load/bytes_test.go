package main

import (
	"context"
	"testing"
	"time"

	"tollgate/cmd/sandbox"
	"tollgate/rediskv"
)

// All that payments leave behind is of a kind: what is counted as other is there once.
func TestKindsOfKeys(t *testing.T) {
	redis := sandbox.NewRedis(time.Now)
	m, err := open(t.Context(), rediskv.Options{URL: "redis://sandbox", Dial: redis.Dial, Partitions: 1}, options{payments: 20, clients: 4, seed: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	r, err := m.receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	count := func() (kinds map[string]int) {
		kinds = map[string]int{}
		keys, err := m.store.Redis.Keys(context.WithoutCancel(t.Context()), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			kinds[kindOf(key)]++
		}
		return kinds
	}
	pay := func() {
		t.Helper()
		if err := m.capture(t.Context(), r, 20); err != nil {
			t.Fatal(err)
		}
	}
	pay()
	before := count()
	pay()
	after := count()
	for kind, want := range map[string]int{weighsPayments: 20, weighsTickets: 20, weighsParts: 20, weighsIdempotency: 40, weighsOther: 0} {
		if n := after[kind] - before[kind]; n != want {
			t.Errorf("%d keys of %s more, want %d", n, kind, want)
		}
	}
	if after[weighsDeliveries]-before[weighsDeliveries] < 20 || after[weighsEvents] == 0 || after[weighsAudit] == 0 || after[weighsIndexes] == 0 || after[weighsPostings] == 0 {
		t.Errorf("%v", after)
	}
}
