package rediskv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/keyring"
	"tollgate/rediskv/store"
)

// rekey puts a document with a change in the place of the one that is there.
func (f *fixture) rekey(t *testing.T, change string) {
	t.Helper()
	found, err := f.Keyring(t.Context())
	must(t, err)
	must(t, f.ReplaceKeyring(t.Context(), change, found, fmt.Sprintf(`{"changes":[%q,%q]}`, change, found.JSON)))
}

// Of two that have read the same document one replaces it; the other is told, and
// changes nothing.
func TestKeyringIsReplacedByOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	none, err := f.Keyring(t.Context())
	if err != nil || none.JSON != "" {
		t.Fatalf("%+v, %v", none, err)
	}
	f.rekey(t, "chg_1")
	was, err := f.Keyring(t.Context())
	must(t, err)
	for _, late := range []keyring.Keyring{none, {}} {
		if err := f.ReplaceKeyring(t.Context(), "chg_2", late, `{"changes":["chg_2"]}`); !errors.Is(err, rediskv.ErrConflict) {
			t.Errorf("late: %v", err)
		}
	}
	if is, err := f.Keyring(t.Context()); err != nil || is != was {
		t.Errorf("%+v, %v; was %+v", is, err, was)
	}
}

// What processes say of their secret keys is known while they live, and no longer than
// some minutes after.
func TestKnownSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.Now()
	for name, ago := range map[string]time.Duration{"wrk_1": 0, "wrk_2": 2 * time.Minute, "wrk_3": 4 * time.Minute, "wrk_4": 0} {
		must(t, f.SaySecrets(t.Context(), name, keyring.Secrets{Has: []string{"b", "a"}, Uses: "a", SaidAt: now.Add(-ago)}))
	}
	must(t, f.ForgetSecrets(t.Context(), "wrk_4"))
	for range 2 {
		known, err := f.KnownSecrets(t.Context(), now)
		must(t, err)
		if len(known) != 2 || known["wrk_1"].Uses != "a" || len(known["wrk_2"].Has) != 2 {
			t.Errorf("%+v", known)
		}
	}
	if known, err := f.KnownSecrets(t.Context(), now.Add(-time.Hour)); err != nil || len(known) != 2 {
		t.Errorf("the dead one is kept: %+v, %v", known, err)
	}
}

// Whichever bit of a document is another one, it is damaged: nobody reads keys from it,
// check finds it, and another one can be put in its place.
func TestDamagedKeyring(t *testing.T) {
	t.Parallel()
	for key, c := range map[string]struct {
		read    func(*store.Store, context.Context) (keyring.Keyring, error)
		replace func(s *store.Store, ctx context.Context, change string, before keyring.Keyring, document string) error
	}{
		rediskv.KeyringKey:   {(*store.Store).Keyring, (*store.Store).ReplaceKeyring},
		rediskv.AuditKeysKey: {(*store.Store).AuditKeys, (*store.Store).ReplaceAuditKeys},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			raw, _ := f.raw(t)
			must(t, c.replace(f.Store, t.Context(), "chg_1", keyring.Keyring{}, `{"changes":["chg_1"]}`))
			text, err := raw.Get(t.Context(), key).Result()
			must(t, err)
			bits(text, func(at int, turned string) {
				must(t, raw.Set(t.Context(), key, turned, 0).Err())
				if found, err := c.read(f.Store, t.Context()); err == nil && found.JSON != "" {
					t.Errorf("byte %d is %q: %s", at, turned[at], found.JSON)
				}
			})
			must(t, raw.Set(t.Context(), key, strings.Replace(text, "chg_1", "chg_9", 1), 0).Err())
			found, err := c.read(f.Store, t.Context())
			if code(err) != string(tollgate.CodeRecordDamaged) {
				t.Fatal(err)
			}
			var findings []checks.Finding
			must(t, f.CheckKeys(t.Context(), &checks.Walk{Found: func(f checks.Finding) { findings = append(findings, f) }}))
			if !slices.ContainsFunc(findings, func(f checks.Finding) bool { return f.Object == "keyring" && f.ID == key && f.Organization == "" }) {
				t.Errorf("check finds %+v", findings)
			}
			must(t, c.replace(f.Store, t.Context(), "chg_2", found, `{"changes":["chg_2"]}`))
			if is, err := c.read(f.Store, t.Context()); err != nil || is.JSON != `{"changes":["chg_2"]}` {
				t.Errorf("%+v, %v", is, err)
			}
		})
	}
}

var keyringResends = []resend{
	{"replace_keyring", "the document, and another replaces it", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		return func(through *fixture) error {
			return through.ReplaceKeyring(t.Context(), "chg_1", keyring.Keyring{}, `{"changes":["chg_1"]}`)
		}, func() { f.rekey(t, "chg_2") }
	}},
	{"replace_seal", "a secret key is rotated", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		return func(through *fixture) error { return through.ReplaceSeal(t.Context(), "", "seal", "key", f.Now()) }, func() {}
	}},
}
