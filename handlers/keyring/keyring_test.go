package keyring_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

const issuer = "https://pay.example"

// site is a deployment: one Redis, one secret key, one clock.
type site struct {
	*testing.T
	store *store.Store
	vault *secret.Vault

	organization string
	asked        atomic.Int64 // how often for the secret keys of processes
	mu           sync.Mutex
	time         time.Time
	log          buffer
}

// buffer is what was logged.
type buffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, time: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	shop := testkit.NewShop(t, rediskv.Options{URL: redistest.URL(t), Rules: []tollgate.RuleRef{testkit.CardFee}}, testkit.NewClock(), nil)
	s.organization = shop.Config.Organization.ID
	s.store = testkit.Open(t, rediskv.Options{URL: shop.URL, Clock: s.now, Observe: func(operation string, _ time.Duration, _ error) {
		if operation == "known_secrets" {
			s.asked.Add(1)
		}
	}})
	s.vault = vault(t, 1)
	return s
}

func vault(t *testing.T, keys ...byte) *secret.Vault {
	t.Helper()
	var secrets [][]byte
	for _, k := range keys {
		secrets = append(secrets, bytes.Repeat([]byte{k}, secret.Size))
	}
	v, err := secret.NewVault(secrets...)
	must(t, err)
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.time
}

func (s *site) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time = s.time.Add(d)
}

// keyring is that of a process whose clock differs.
func (s *site) keyring(off time.Duration, external ...[]byte) *keyring.Keyring {
	s.Helper()
	k, err := keyring.New(keyring.Config{
		Store: s.store, Vault: s.vault, Entropy: rand.Reader, Clock: func() time.Time { return s.now().Add(off) },
		Log: slog.New(slog.NewTextHandler(&s.log, nil)), External: external,
	})
	must(s.T, err)
	return k
}

func (s *site) ring() keyring.Ring {
	s.Helper()
	r, err := s.keyring(0).Ring(s.Context())
	must(s.T, err)
	return r
}

// text is the document as an instance reads it on its round.
func (s *site) text() string {
	s.Helper()
	_, err := s.store.Keyring(s.Context())
	must(s.T, err)
	return s.store.KeptKeyring()
}

// instance is one that signs and verifies.
type instance struct {
	*keyring.Keyring
	*auth.Issuer
	*auth.Verifier
	site *site
	off  time.Duration
}

func (s *site) instance(off time.Duration, external ...[]byte) *instance {
	s.Helper()
	i := &instance{Keyring: s.keyring(off, external...), site: s, off: off}
	keys, err := i.Open(s.Context())
	must(s.T, err)
	i.Issuer = &auth.Issuer{Keys: keys, Name: issuer}
	i.Verifier, err = auth.NewVerifier(keys, issuer, 100, i.now)
	must(s.T, err)
	return i
}

func (i *instance) now() time.Time { return i.site.now().Add(i.off) }

func (i *instance) follow() { i.Follow(i.site.Context(), "ins_1", i.site.text(), "") }

func (i *instance) token() string {
	i.site.Helper()
	token, err := i.Mint(i.now(), auth.Token{
		ID: rand.Text(), ClientID: "cli_1", Organization: "org_1", GrantID: "grt_1", GrantVersion: 1, Scopes: auth.AllScopes(),
	})
	must(i.site.T, err)
	return token
}

// signedBy is the id of the key that signed a token.
func (i *instance) signedBy(token string) string {
	i.site.Helper()
	known, err := i.Verify(token)
	must(i.site.T, err)
	return known.KeyID
}

func private(t *testing.T) (jwk []byte, id string) {
	t.Helper()
	jwk, err := auth.GenerateSigningKey(rand.Reader)
	must(t, err)
	_, id, err = auth.PublicSigningKey(jwk)
	must(t, err)
	return jwk, id
}

// published are the ids of a key set as it is published.
func published(t *testing.T, jwks []byte) (ids []string) {
	t.Helper()
	var set struct {
		Keys []struct {
			ID      string `json:"kid"`
			Private string `json:"d"`
		} `json:"keys"`
	}
	must(t, json.Unmarshal(jwks, &set))
	for _, k := range set.Keys {
		if k.Private != "" {
			t.Error("a private key is published")
		}
		ids = append(ids, k.ID)
	}
	return ids
}

// For 120 days two instances whose clocks differ sign a token every hour, and whoever
// reads the key set once in 23 hours can verify each. Workers are away for hours at
// a time. Each key signs for 30 days, and is gone a day after the next one signs.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b, work := s.instance(-4*time.Second), s.instance(4*time.Second), s.keyring(0)
	var cached [23][]string // by when in its 23 hours somebody reads
	signed, last := map[string]int{}, map[string]time.Time{}
	for hour := range 120 * 24 {
		if hour%7 != 0 {
			must(t, work.Maintain(t.Context()))
		}
		a.follow()
		b.follow()
		reads, set := hour%len(cached), published(t, b.Keys.JWKS())
		for i := range cached {
			if i == reads || hour == 0 {
				cached[i] = set
			}
		}
		for _, i := range []*instance{a, b} {
			token := i.token()
			id := a.signedBy(token)
			for _, set := range cached {
				if !slices.Contains(set, id) || b.signedBy(token) != id {
					t.Fatalf("after %d hours %s signs, and somebody has %v", hour, id, set)
				}
			}
			signed[id]++
			last[id] = s.now()
		}
		for id, at := range last {
			is, ago := slices.Contains(set, id), s.now().Sub(at)
			if is && ago > 27*time.Hour || !is && ago < 24*time.Hour {
				t.Fatalf("after %d hours: published is %v; %s signed %s ago", hour, set, id, ago)
			}
		}
		if ring := s.ring(); len(ring.Keys) > 2 {
			t.Fatalf("after %d hours there are %d keys", hour, len(ring.Keys))
		}
		s.pass(time.Hour)
	}
	if len(signed) != 4 {
		t.Errorf("%d keys have signed", len(signed))
	}
	for id, times := range signed {
		if hours := times / 2; hours < 30*24-1 || hours > 30*24+1 { // the clocks differ
			t.Errorf("%s has signed for %d hours", id, times/2)
		}
	}
	if text := s.text(); strings.Contains(text, `"d":`) || strings.Contains(s.log.String(), `"d"`) {
		t.Error("a private key lies there in the clear")
	}
}

// A worker that was away for a month makes the next key a day ahead all the same; the
// last one signs until then.
func TestLateRotation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.instance(0)
	first := a.signedBy(a.token())
	s.pass(60 * 24 * time.Hour)
	must(t, s.keyring(0).Maintain(t.Context()))
	a.follow()
	if r := s.ring(); len(r.Keys) != 2 || r.Keys[1].ActiveAt != tollgate.At(s.now().Add(keyring.Ahead)) || a.signedBy(a.token()) != first {
		t.Fatalf("%+v", r)
	}
	s.pass(keyring.Ahead)
	if a.signedBy(a.token()) == first {
		t.Error("the key of before signs on")
	}
}

// Those that start at once agree on one key, and workers on one next one.
func TestOneKeyOfManyProcesses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	together := func(do func() error) {
		t.Helper()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := do(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	together(func() error {
		_, err := s.keyring(0).Open(context.WithoutCancel(t.Context()))
		return err
	})
	if r := s.ring(); len(r.Keys) != 1 {
		t.Fatalf("%d keys", len(r.Keys))
	}
	s.pass(30 * 24 * time.Hour)
	together(func() error { return s.keyring(0).Maintain(context.WithoutCancel(t.Context())) })
	if r := s.ring(); len(r.Keys) != 2 {
		t.Fatalf("%d keys", len(r.Keys))
	}
	refused := 0
	together(func() error {
		err := s.keyring(0).Rotate(context.WithoutCancel(t.Context()), false)
		if errors.Is(err, keyring.ErrNext) {
			s.mu.Lock()
			refused++
			s.mu.Unlock()
			return nil
		}
		return err
	})
	if r := s.ring(); len(r.Keys) != 2 || refused != 8 {
		t.Fatalf("%d keys, %d refused", len(r.Keys), refused)
	}
}

// No key that is made here has an id that a command line takes for a flag: one of 64
// would.
func TestKeyIDsAreArguments(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.instance(0)
	for range 300 {
		must(t, s.keyring(0).Rotate(t.Context(), true))
		if r := s.ring(); strings.HasPrefix(r.Keys[len(r.Keys)-1].ID, "-") {
			t.Fatal(r.Keys[len(r.Keys)-1].ID)
		}
		s.pass(25 * time.Hour)
		must(t, s.keyring(0).Maintain(t.Context()))
	}
}

// Rotation by hand: in a day, or at once. What the key before has signed stays valid.
func TestRotate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.instance(0)
	token := a.token()
	first := a.signedBy(token)
	must(t, s.keyring(0).Rotate(t.Context(), false))
	a.follow()
	if ids := published(t, a.Keys.JWKS()); len(ids) != 2 || a.signedBy(a.token()) != first {
		t.Fatalf("%v", ids)
	}
	next := s.ring().Keys[1].ID
	must(t, s.keyring(0).Rotate(t.Context(), true))
	a.follow()
	if id := a.signedBy(a.token()); id != next || a.signedBy(token) != first {
		t.Errorf("%s signs, not %s", id, next)
	}
	must(t, s.keyring(0).Rotate(t.Context(), true)) // there is no next one
	a.follow()
	r := s.ring()
	if id := a.signedBy(a.token()); len(r.Keys) != 3 || id != r.Keys[2].ID || a.signedBy(token) != first {
		t.Errorf("%s signs of %+v", id, r.Keys)
	}
}

// A key that was taken out verifies nothing, also what was verified before. The next one
// signs, or a new one.
func TestRevoke(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.instance(0)
	must(t, s.keyring(0).Rotate(t.Context(), false))
	next := s.ring().Keys[1].ID
	for _, want := range []string{next, ""} {
		token := a.token()
		id := a.signedBy(token)
		must(t, s.keyring(0).Revoke(t.Context(), id))
		must(t, s.keyring(0).Revoke(t.Context(), id)) // its answer may have been lost
		a.follow()
		if _, err := a.Verify(token); auth.ReasonOf(err) != auth.ReasonKey {
			t.Errorf("a token of %s: %v", id, err)
		}
		if slices.Contains(published(t, a.Keys.JWKS()), id) {
			t.Errorf("%s is published", id)
		}
		if r := s.ring(); len(r.Keys) != 1 || r.StateOf(0, tollgate.At(s.now())) != keyring.Active {
			t.Errorf("%+v", r.Keys)
		}
		if by := a.signedBy(a.token()); by == id || want != "" && by != want {
			t.Errorf("%s signs after %s", by, id)
		}
	}
	if err := s.keyring(0).Revoke(t.Context(), "nothing"); !errors.Is(err, keyring.ErrUnknown) {
		t.Error(err)
	}
	// A revoked next key leaves the one that signs.
	must(t, s.keyring(0).Rotate(t.Context(), false))
	r := s.ring()
	must(t, s.keyring(0).Revoke(t.Context(), r.Keys[1].ID))
	if now := s.ring(); len(now.Keys) != 1 || now.Keys[0].ActiveAt != r.Keys[0].ActiveAt {
		t.Errorf("%+v", now)
	}
}

// Instances that were given keys of their own sign with them, and all verify the union.
func TestKeysFromOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, oneID := private(t)
	two, twoID := private(t)
	a, b := s.instance(0, one), s.instance(0, two, one)
	if len(s.ring().Keys) != 0 {
		t.Error("a key was made that nobody needs")
	}
	c := s.instance(0)
	all := []*instance{a, b, c}
	own := s.ring().Keys[0].ID
	for range 3 * 24 * 2 {
		for _, i := range all {
			i.follow()
		}
		for n, from := range all {
			token := from.token()
			for _, at := range all {
				if id := at.signedBy(token); id != []string{oneID, twoID, own}[n] {
					t.Fatalf("%s has signed at %d", id, n)
				}
			}
		}
		if !bytes.Equal(a.Keys.JWKS(), b.Keys.JWKS()) || !bytes.Equal(a.Keys.JWKS(), c.Keys.JWKS()) {
			t.Fatalf("not the same everywhere:\n%s\n%s\n%s", a.Keys.JWKS(), b.Keys.JWKS(), c.Keys.JWKS())
		}
		s.pass(30 * time.Minute)
		must(t, s.keyring(0).Maintain(t.Context()))
		if r := s.ring(); len(r.External) != 2 {
			t.Fatalf("%d keys of instances that live", len(r.External))
		}
	}

	// b ends; a day later nobody publishes what it alone had.
	token := b.token()
	for range 24 {
		s.pass(time.Hour)
		must(t, s.keyring(0).Maintain(t.Context()))
		a.follow()
	}
	if ids := published(t, a.Keys.JWKS()); slices.Contains(ids, twoID) || !slices.Contains(ids, oneID) {
		t.Errorf("published: %v", ids)
	}
	if _, err := a.Verify(token); auth.ReasonOf(err) != auth.ReasonKey {
		t.Error(err)
	}

	// A key from outside that was taken out is not taken again from who has it.
	must(t, s.keyring(0).Revoke(t.Context(), oneID))
	token = a.token()
	a.follow()
	a.follow()
	if id := a.signedBy(a.token()); id != own {
		t.Errorf("%s signs", id)
	}
	if _, err := a.Verify(token); auth.ReasonOf(err) != auth.ReasonKey {
		t.Error(err)
	}
	again := s.instance(0, one)
	if id := again.signedBy(again.token()); id != own {
		t.Errorf("%s signs after a start", id)
	}
}

// Where instances have keys of their own, a key that is to be published for a day is, also
// when one of those is taken out.
func TestRevokeBesideKeysFromOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, _ := private(t)
	two, twoID := private(t)
	s.instance(0, one)
	s.instance(0, two)
	must(t, s.keyring(0).Rotate(t.Context(), false))
	must(t, s.keyring(0).Revoke(t.Context(), twoID))
	if r := s.ring(); len(r.Keys) != 1 || len(r.External) != 1 || r.Keys[0].ActiveAt != tollgate.At(s.now().Add(24*time.Hour)) {
		t.Errorf("%+v", r)
	}
}

// What Redis has lost, or what is damaged, an instance that knows it puts back: no token
// ends, and what was revoked stays revoked.
func TestKeysArePutBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.instance(0), s.instance(0)
	before := s.text()
	must(t, s.keyring(0).Rotate(t.Context(), true))
	revoked := s.ring().Keys[0].ID
	must(t, s.keyring(0).Revoke(t.Context(), revoked))
	a.follow()
	b.follow()
	token, known := a.token(), s.ring()
	damaged := strings.Replace(s.text(), known.Keys[0].ID[:8], "AAAAAAAA", 1)
	for name, text := range map[string]string{"lost": "", "an earlier one": before, "damaged": damaged} {
		must(t, s.store.Redis.Set(t.Context(), rediskv.KeyringKey, text, 0).Err())
		if text == "" {
			must(t, s.store.Redis.Del(t.Context(), rediskv.KeyringKey).Err())
		}
		s.log.Reset()
		a.Follow(t.Context(), "ins_1", text, "")
		b.Follow(t.Context(), "ins_1", text, "")
		is := s.ring()
		if len(is.Keys) != 1 || is.Keys[0].ID != known.Keys[0].ID || !is.IsRevoked(revoked) {
			t.Errorf("%s: %+v, not %+v", name, is, known)
		}
		for _, i := range []*instance{a, b} {
			i.follow()
			if i.signedBy(token) != known.Keys[0].ID || i.signedBy(i.token()) != known.Keys[0].ID {
				t.Errorf("%s: another key signs", name)
			}
		}
		if !strings.Contains(s.log.String(), "put back") {
			t.Errorf("%s: nobody is told: %s", name, s.log.String())
		}
	}
}

// Where nobody knows better, damaged keys are not taken for good ones, and an operator
// begins anew.
func TestDamagedKeysAtAStart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.instance(0)
	id := first.signedBy(first.token())
	must(t, s.store.Redis.Set(t.Context(), rediskv.KeyringKey, strings.Replace(s.text(), id[:8], "AAAAAAAA", 1), 0).Err())
	if _, err := s.keyring(0).Open(t.Context()); err == nil || !strings.Contains(err.Error(), string(tollgate.CodeRecordDamaged)) {
		t.Errorf("an instance starts with damaged keys: %v", err)
	}
	own, ownID := private(t)
	given := s.instance(0, own)
	if id := given.signedBy(given.token()); id != ownID {
		t.Errorf("%s signs", id)
	}
	damaged, err := s.store.Redis.Get(t.Context(), rediskv.KeyringKey).Result()
	must(t, err)
	given.Follow(t.Context(), "ins_1", damaged, "")
	if is, err := s.store.Redis.Get(t.Context(), rediskv.KeyringKey).Result(); err != nil || is != damaged {
		t.Errorf("who knows nothing has written over it: %s, %v", is, err)
	}
	if err := s.keyring(0).Rotate(t.Context(), false); err == nil {
		t.Error("a damaged document is taken for a good one")
	}
	must(t, s.keyring(0).Rotate(t.Context(), true))
	again := s.instance(0)
	if by := again.signedBy(again.token()); by == id || len(s.ring().Keys) != 1 {
		t.Errorf("%s signs on", by)
	}
}

// Under another secret key nothing is read, and nothing lost.
func TestKeysUnderAnotherSecret(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.instance(0)
	before := s.text()
	s.vault = vault(t, 2)
	if _, err := s.keyring(0).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "not encrypted under this secret key") {
		t.Error(err)
	}
	if s.text() != before {
		t.Error("it has changed something")
	}
}
