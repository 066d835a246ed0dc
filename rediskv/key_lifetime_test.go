package rediskv_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
)

// An Idempotency-Key is remembered for seven days by the clock of the service, whatever
// Redis' clock says: its lifetime there is twice that.
func TestKeysAreForgottenByTheServicesClock(t *testing.T) {
	f := newFixture(t)
	key := f.Key("k")
	pay := func() (string, bool) {
		t.Helper()
		a := f.MerchantAccount(t)
		ch, ans := f.Draft(t, a, eur(1000), "shop.example", tollgate.CaptureManual)
		r, err := f.CreatePayment(t.Context(), f.Caller, key, a, ch, ans)
		if err != nil {
			t.Fatal(err)
		}
		body, err := f.Given(t.Context(), r)
		must(t, err)
		return string(body), r.Repeated
	}
	known := func() bool {
		t.Helper()
		_, known, err := f.FindRepeated(t.Context(), f.Caller, key)
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	first, repeated := pay()
	if repeated {
		t.Fatal("the first is a repeat")
	}
	f.Clock.Advance(7*24*time.Hour - time.Millisecond)
	if again, repeated := pay(); !repeated || again != first || !known() {
		t.Errorf("a millisecond early it is forgotten: %v", repeated)
	}
	f.Clock.Advance(time.Millisecond)
	if known() {
		t.Error("after seven days it is remembered")
	}
	second, repeated := pay()
	if repeated || second == first {
		t.Error("after seven days it is a repeat")
	}
	if again, repeated := pay(); !repeated || again != second {
		t.Error("the second is not remembered in the place of the first")
	}
	// A clock that is behind forgets nothing.
	f.Clock.Advance(-30 * 24 * time.Hour)
	if _, repeated := pay(); !repeated {
		t.Error("it is forgotten before it was made")
	}

	raw := rawClient(t, f.URL)
	names := scanKeys(t, raw, "*:idem:*")
	if len(names) == 0 {
		t.Fatal("there is no record")
	}
	// Where it is does not change either: a release that looked elsewhere would pay again.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s", len(key.Scope), key.Scope, len(key.Key), key.Key))
	if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ":idem:"+hex.EncodeToString(sum[:20])) }) {
		t.Errorf("none of %v is of %+v", names, key)
	}
	for _, name := range names {
		if ttl, err := raw.PTTL(t.Context(), name).Result(); err != nil || ttl < 13*24*time.Hour || ttl > 14*24*time.Hour {
			t.Errorf("%s lives for %s, %v", name, ttl, err)
		}
	}
}
