package keyring_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
	"tollgate/rediskv"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/testkit"
)

// hooked gives an organization endpoints with a secret each.
func (s *site) hooked(v *secret.Vault, count int) {
	s.Helper()
	caller := rediskv.Caller{Organization: s.organization}
	for range count {
		w := tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{
			Object: "webhook_endpoint", ID: s.store.NewID(tollgate.PrefixWebhook), CreatedAt: s.store.Now(), UpdatedAt: s.store.Now(), URL: "https://shop.example",
			Status: tollgate.WebhookActive, EventTypes: []string{}, SignatureScheme: tollgate.SignatureV1, SchemaVersion: tollgate.SchemaVersion,
		}}
		keys := tollgate.WebhookKeys{Entropy: rand.Reader, Seal: func(place string, text []byte) ([]byte, error) { return v.Seal(rand.Reader, place, text) }}
		_, err := keys.Make(&w, s.store.Now())
		must(s.T, err)
		list, err := s.store.WebhookList(s.Context(), s.organization)
		must(s.T, err)
		ch, err := tollgate.CreateWebhook(s.store.NewID, s.store.Origin(caller), list, w)
		must(s.T, err)
		_, err = s.store.CommitWebhook(s.Context(), caller, nil, ch, rediskv.Answer{Status: 201})
		must(s.T, err)
	}
}

// opened counts the endpoints whose secrets a vault opens.
func (s *site) opened(v *secret.Vault) (count int) {
	s.Helper()
	rows, more, err := s.store.Webhooks(s.Context(), rediskv.Caller{Organization: s.organization}, "", 100)
	must(s.T, err)
	if more {
		s.Fatal("more than a page")
	}
	for _, w := range rows {
		text, err := v.Open(tollgate.SigningKeyPlace(w.ID, 1, tollgate.SignatureV1), w.Sealed[0].Secret)
		if err == nil && len(text) == 32 {
			count++
		}
	}
	return count
}

// process is one that runs, with the secret keys that it has, the newest first.
type process struct {
	*keyring.Keyring
	site  *site
	name  string
	vault *secret.Vault
}

func (s *site) process(name string, keys ...byte) *process {
	s.Helper()
	p := &process{site: s, name: name, vault: vault(s.T, keys...)}
	s.vault = p.vault
	p.Keyring = s.keyring(0)
	seal, _, err := s.store.Seal(s.Context())
	must(s.T, err)
	must(s.T, p.vault.Use([]byte(seal)))
	return p
}

// look is what it does each second.
func (p *process) look() {
	p.site.Helper()
	must(p.site.T, p.Attend(p.site.Context(), p.name))
	if strings.HasPrefix(p.name, tollgate.PrefixInstance) {
		must(p.site.T, p.site.store.Heartbeat(p.site.Context(), instances.Instance{ID: p.name}))
	}
}

func (p *process) end() {
	p.site.Helper()
	must(p.site.T, p.site.store.ForgetSecrets(p.site.Context(), p.name))
	if strings.HasPrefix(p.name, tollgate.PrefixInstance) {
		must(p.site.T, p.site.store.Deregister(p.site.Context(), p.name))
	}
}

// sealedSite has a seal, signing keys and endpoints under the secret key 1.
func sealedSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	mark, err := s.vault.Mark(rand.Reader)
	must(t, err)
	_, err = s.store.OnceSealed(t.Context(), mark, s.vault.Sealing())
	must(t, err)
	must(t, s.vault.Use(mark))
	s.instance(0)
	must(t, s.keyring(0).Rotate(t.Context(), false))
	s.hooked(s.vault, 3)
	return s
}

// reseal is the command, with the keys 2 and 1, while processes look again and again.
func (s *site) reseal(running ...*process) (keyring.Resealed, error) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, p := range running {
				p.look()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	defer func() { stop(); <-done }()
	return s.process("operator", 2, 1).Reseal(ctx, func(keyring.Resealed) {})
}

// The secret key is rotated while everything runs: instances and workers change over one
// by one, and whoever has only the key before reads what they write until the command is
// run; then everything is under the new one.
func TestReseal(t *testing.T) {
	t.Parallel()
	s := sealedSite(t)
	old := []*process{s.process("ins_a", 1), s.process("wrk_a", 1)}
	for _, p := range old {
		p.look()
	}
	early := s.process("ins_b", 2, 1)
	early.look()
	s.hooked(early.vault, 1) // still read by all
	if n := s.opened(vault(t, 1)); n != 4 {
		t.Fatalf("%d of 4 endpoints are read with the key before", n)
	}
	before := s.ring()

	// Not before each has the new one.
	_, err := s.reseal(early)
	if lacking, ok := errors.AsType[*keyring.LackingError](err); !ok || !slices.Equal(lacking.Processes, []string{"ins_a", "wrk_a"}) {
		t.Fatalf("%v", err)
	}
	if n := s.opened(vault(t, 1)); n != 4 {
		t.Fatalf("it has encrypted %d again, and was refused", 4-n)
	}
	for _, p := range old {
		p.end()
	}
	late := s.process("wrk_b", 2, 1)
	late.look()

	r, err := s.reseal(early, late)
	must(t, err)
	if r.SigningKeys != 2 || r.Endpoints != 4 || len(r.Unreadable) != 0 || r.SecretKey != vault(t, 2).Sealing() {
		t.Errorf("%+v", r)
	}
	if n := s.opened(vault(t, 2)); n != 4 {
		t.Errorf("%d of 4 endpoints are under the new key", n)
	}
	s.vault = vault(t, 2)
	a := s.instance(0) // it signs with what only the new key opens
	if id := a.signedBy(a.token()); id != before.Keys[0].ID || len(s.ring().Keys) != 2 {
		t.Errorf("%s signs", id)
	}
	s.hooked(early.vault, 1)
	if n := s.opened(vault(t, 2)); n != 5 {
		t.Errorf("%d of 5 endpoints are under the new key", n)
	}
	if s.process("wrk_c", 2); vault(t, 1).Use([]byte(s.seal())) == nil {
		t.Error("the seal is that of before")
	}

	// Kept answers live for a week; until then it is not finished. Again is no harm.
	if r, err = s.reseal(early, late); err != nil || r.SigningKeys+r.Endpoints != 0 || r.KeepUntil == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	s.pass(7*24*time.Hour + time.Second)
	if r, err = s.reseal(early, late); err != nil || r.KeepUntil != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func (s *site) seal() string {
	s.Helper()
	seal, _, err := s.store.Seal(s.Context())
	must(s.T, err)
	return seal
}

// An instance that says nothing of secret keys is of an earlier build, and holds it up.
func TestResealWaitsForEarlierBuilds(t *testing.T) {
	t.Parallel()
	s := sealedSite(t)
	must(t, s.store.Heartbeat(t.Context(), instances.Instance{ID: "ins_earlier"}))
	_, err := s.reseal()
	if lacking, ok := errors.AsType[*keyring.LackingError](err); !ok || !slices.Equal(lacking.Processes, []string{"ins_earlier"}) {
		t.Errorf("%v", err)
	}
}

// A command that died in the middle is run again. What no key opens is named, and the
// rest is encrypted all the same; what nobody has heard of for minutes holds up nobody.
func TestResealGoesOn(t *testing.T) {
	t.Parallel()
	s := sealedSite(t)
	s.hooked(vault(t, 3), 1)
	s.process("wrk_dead", 1).look()
	s.pass(4 * time.Minute)
	both := s.process("operator", 2, 1)
	mark, err := both.vault.Mark(rand.Reader)
	must(t, err)
	must(t, s.store.ReplaceSeal(t.Context(), s.seal(), string(mark), both.vault.Sealing(), tollgate.At(s.now()))) // and there it died
	r, err := s.reseal()
	must(t, err)
	if r.SigningKeys != 2 || r.Endpoints != 3 || len(r.Unreadable) != 1 || !strings.HasPrefix(r.Unreadable[0], tollgate.PrefixWebhook) {
		t.Errorf("%+v", r)
	}
	if n := s.opened(vault(t, 2)); n != 3 {
		t.Errorf("%d endpoints are under the new key", n)
	}
	if err := s.store.ReplaceSeal(t.Context(), "another", "one", "key", 1); !errors.Is(err, rediskv.ErrConflict) {
		t.Error(err)
	}
}

// An endpoint that somebody changes between reading and writing is not lost, and not
// forgotten: the next pass finds it.
func TestResealBesideChanges(t *testing.T) {
	t.Parallel()
	s := sealedSite(t)
	seen := s.process("ins_b", 2, 1)
	seen.look()
	rows, _, err := s.store.Webhooks(t.Context(), rediskv.Caller{Organization: s.organization}, "", 100)
	must(t, err)
	stale := rows[0]
	must(t, s.store.CommitSecrets(t.Context(), s.organization, &stale))
	if err := s.store.CommitSecrets(t.Context(), s.organization, &stale); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("over another change: %v", err)
	}
	if r, err := s.reseal(seen); err != nil || r.Endpoints != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Nothing is encrypted again before every process encrypts under the new key; and what
// came behind a pass is found by the next.
func TestResealWaitsForEverybody(t *testing.T) {
	t.Parallel()
	s := sealedSite(t)
	slow := s.process("wrk_slow", 2, 1)
	slow.look()
	operator := s.process("operator", 2, 1)
	var looked atomic.Bool
	passes := 0
	ended := make(chan keyring.Resealed, 1)
	go func() {
		r, err := operator.Reseal(t.Context(), func(keyring.Resealed) {
			if !looked.Load() {
				t.Error("it encrypts again while somebody encrypts under the key before")
			}
			if passes++; passes <= 2 {
				s.hooked(vault(t, 1), 1)
			}
		})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	testkit.Eventually(t, "the seal is the new one", func() bool { return vault(t, 2).Use([]byte(s.seal())) == nil })
	asked := s.asked.Load()
	testkit.Eventually(t, "it waits", func() bool { return s.asked.Load() > asked+2 })
	s.hooked(slow.vault, 1) // it has not looked
	looked.Store(true)
	slow.look()
	if r := <-ended; r.Endpoints != 6 || r.Looked != 6 || s.opened(vault(t, 2)) != 6 {
		t.Errorf("%+v, %d under the new key", r, s.opened(vault(t, 2)))
	}
}
