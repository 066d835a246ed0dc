package rediskv_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/snapshot"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

// keeping is an instance that keeps what it knows in a folder.
type keeping struct {
	*fixture
	t        *testing.T
	instance *store.Store // whose knowledge is kept
	folder   string
	log      bytes.Buffer
	grant    string
	account  string
}

// newKeeping has an account priced by a published rule.
func newKeeping(t *testing.T) *keeping {
	t.Helper()
	k := &keeping{fixture: newFixture(t), t: t, folder: filepath.Join(t.TempDir(), "kept")}
	k.grant, k.account = k.Config.Grants[0].ID, k.Config.MerchantAccounts[0].ID
	c := tollgate.Citation{Name: "shop_fee", Version: 1}
	module := sha256.Sum256([]byte(c.String()))
	signer := k.signer(t)
	if _, err := k.publishRule(t, tollgate.Rule{
		Object: "rule", ID: tollgate.RuleID(c), CreatedAt: k.Now(), Rule: c, SHA256: hex.EncodeToString(module[:]), SignerID: signer.ID,
	}, signer); err != nil {
		t.Fatal(err)
	}
	k.activate(t, 1)
	k.restart()
	return k
}

// restart forgets what the instance knows.
func (k *keeping) restart() {
	k.instance = k.with(k.t, rediskv.Options{Notes: true}).Store
	if _, err := k.instance.OnceSealed(k.t.Context(), []byte("seal\xff"), "key"); err != nil {
		k.t.Fatal(err)
	}
}

// know has the instance read what a quote needs.
func (k *keeping) know() {
	k.t.Helper()
	ctx, org := k.t.Context(), k.Caller.Organization
	_, err := k.instance.Organization(ctx, org)
	if err == nil {
		_, err = k.instance.Grant(ctx, org, k.grant)
	}
	if err == nil {
		_, err = k.instance.Account(ctx, org, k.account)
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *keeping) open() *snapshot.Snapshot {
	k.t.Helper()
	s, err := snapshot.Open(k.folder, k.Clock.Now, slog.New(slog.NewTextHandler(&k.log, nil)))
	if err != nil {
		k.t.Fatal(err)
	}
	return s
}

func (k *keeping) save(s *snapshot.Snapshot) {
	k.t.Helper()
	if err := s.Save(k.t.Context(), k.instance); err != nil {
		k.t.Fatal(err)
	}
}

// away is what starts while Redis is away; nil: nothing is known.
func (k *keeping) away() *store.Store {
	k.t.Helper()
	known, err := k.open().Store(rediskv.Options{Clock: k.Clock.Now, Rules: []tollgate.RuleRef{testkit.CardFee}})
	if err != nil {
		k.t.Fatal(err)
	}
	return known
}

// asOf is when what a quote needs was last known to be current, as a process says
// that starts without Redis; 0: it has no quote.
func (k *keeping) asOf() tollgate.Instant {
	k.t.Helper()
	ctx, org := k.t.Context(), k.Caller.Organization
	known := k.away()
	if known == nil {
		return 0
	}
	if _, err := known.Grant(ctx, org, k.grant); err != nil {
		k.t.Fatal(err)
	}
	if _, err := known.Account(ctx, org, k.account); err != nil {
		k.t.Fatal(err)
	}
	at, current := known.AsOf(org, k.grant, k.account)
	if current {
		k.t.Errorf("as of %s it is current", at)
	}
	return at
}

// What an instance knows is there, as it was, for one that starts without Redis; what
// nobody has kept is not said to be missing.
func TestSnapshot(t *testing.T) {
	k := newKeeping(t)
	ctx, org := t.Context(), k.Caller.Organization
	if k.away() != nil {
		t.Error("something is known of nothing")
	}
	k.know()
	k.instance.Cache.Confirm(k.Clock.Now())
	k.save(k.open())
	want := k.Now()
	k.Clock.Advance(time.Minute)
	if got := k.asOf(); got != want {
		t.Errorf("current at %s, and kept as of %s", want, got)
	}
	known := k.away()
	account, err := k.instance.Account(ctx, org, k.account)
	if err != nil {
		t.Fatal(err)
	}
	got, err := known.Account(ctx, org, k.account)
	if err != nil || !reflect.DeepEqual(got, account) || len(got.Rules) != 2 {
		t.Fatalf("%v: kept %+v, and was %+v", err, got, account)
	}
	for _, ref := range got.Rules[1:] {
		if module, err := known.Module(ctx, org, ref); err != nil || string(module) != ref.Rule.String() {
			t.Errorf("%s: %v %q", ref.Rule, err, module)
		}
	}
	for what, err := range map[string]error{
		"an account that nobody has read": second(known.Account(ctx, org, "ma_other")),
		"another organization":            second(known.Organization(ctx, "org_other")),
		"a payment":                       third(known.Payment(ctx, k.Caller, "pay_x")),
		"a module":                        second(known.Module(ctx, org, tollgate.RuleRef{SHA256: "x"})),
	} {
		if !rediskv.Away(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, e := range []string{"", "redis.json", org + ".org.json"} {
		if info, err := os.Stat(filepath.Join(k.folder, e)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q: %v %v", e, info.Mode(), err)
		}
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// No process claims that something was current when nobody knew.
func TestSnapshotSaysSinceWhen(t *testing.T) {
	k := newKeeping(t)
	pass := func() (then, now tollgate.Instant) {
		then = k.Now()
		k.Clock.Advance(time.Minute)
		k.instance.Cache.Confirm(k.Clock.Now())
		return then, k.Now()
	}
	k.know()
	s := k.open()
	_, first := pass()
	k.save(s)
	k.instance.Refresh(k.Caller.Organization) // it has changed
	then, _ := pass()
	k.save(s)
	if got := k.asOf(); got != then || then != first {
		t.Errorf("it changed after %s, and is kept as of %s", then, got)
	}
	k.know()
	_, now := pass()
	k.save(s)
	if got := k.asOf(); got != now {
		t.Errorf("it was read again and confirmed at %s, and is kept as of %s", now, got)
	}

	// The next process has not read it yet, and is killed.
	k.restart()
	s = k.open()
	pass()
	k.save(s)
	if got := k.asOf(); got != now {
		t.Errorf("this process has not read it; it is kept as of %s, and was as of %s", got, now)
	}
	k.Clock.Advance(2 * time.Hour)
	pass()
	k.save(s)
	if got := k.asOf(); got != 0 {
		t.Errorf("for hours nobody has read it; it is kept as of %s", got)
	}
	// What is gone from the cache is gone from the snapshot, and not confirmed with
	// the rest.
	k.know()
	pass()
	k.save(s)
	k.instance.Cache.Entries.Purge()
	pass()
	k.save(s)
	if got := k.asOf(); got != 0 {
		t.Errorf("the instance does not know it any more; it is kept as of %s", got)
	}
}

// A snapshot that is damaged, or of another Redis, is none.
func TestSnapshotDamaged(t *testing.T) {
	k := newKeeping(t)
	k.know()
	k.instance.Cache.Confirm(k.Clock.Now())
	k.save(k.open())
	whole := map[string][]byte{}
	names, err := filepath.Glob(k.folder + "/*")
	if err != nil || len(names) != 3 {
		t.Fatal(err, names)
	}
	for _, name := range names {
		if whole[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		for _, at := range []int{0, len(whole[name]) / 2, len(whole[name]) - 2} {
			flipped := bytes.Clone(whole[name])
			flipped[at] ^= 1
			if err := os.WriteFile(name, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			known := k.away()
			switch {
			case strings.HasSuffix(name, ".wasm"):
				if _, err := known.Module(t.Context(), k.Caller.Organization, tollgate.RuleRef{SHA256: strings.TrimSuffix(filepath.Base(name), ".wasm")}); !rediskv.Away(err) {
					t.Errorf("byte %d of a module: %v", at, err)
				}
			case known != nil:
				t.Errorf("byte %d of %s: it is read", at, filepath.Base(name))
			}
		}
		if err := os.WriteFile(name, whole[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if k.asOf() == 0 || !strings.Contains(k.log.String(), "cannot be read") {
		t.Errorf("whole again: %s", k.log.String())
	}

	other := openWith(t, rediskv.Options{URL: redistest.Single(t).URL, Clock: k.Clock.Now, Notes: true})
	if _, err := other.OnceSealed(t.Context(), []byte("other"), "key"); err != nil {
		t.Fatal(err)
	}
	if err := k.open().Save(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if got := k.asOf(); got != 0 {
		t.Errorf("of another redis there is something as of %s", got)
	}
}
