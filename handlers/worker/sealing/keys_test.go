package sealing_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
	"tollgate/handlers/tlog/auditor"
)

// keyed has the record's keys read with these secret keys, the newest first.
func (r *record) keyed(secrets ...string) *secret.Vault {
	r.Helper()
	raw := make([][]byte, len(secrets))
	for i, one := range secrets {
		raw[i] = []byte(strings.Repeat(one, secret.Size))
	}
	vault, err := secret.NewVault(raw...)
	must(r, err)
	seal, _, err := r.Seal(r.Context())
	must(r, err)
	if seal != "" {
		must(r, vault.Use([]byte(seal)))
	}
	r.ring, err = keyring.New(keyring.Config{Store: r.Store, Vault: vault, Entropy: rand.Reader, Clock: r.Clock.Now})
	must(r, err)
	r.own = r.sealer()
	return vault
}

// Another secret key takes over: a worker that has it alone seals with the same audit
// key as before. One that has only the key before no longer does.
func TestSealingAfterReseal(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	old := r.keyed("k")
	mark, err := old.Mark(rand.Reader)
	must(t, err)
	_, err = r.OnceSealed(t.Context(), mark, old.Sealing())
	must(t, err)
	must(t, old.Use(mark))
	r.serve()
	must(t, r.ring.RotateAudit(t.Context())) // there is one of before, too
	r.seal()
	early, key, before := r.last().Last.Note, r.key(), r.own

	r.keyed("n", "k")
	done, err := r.ring.Reseal(t.Context(), func(keyring.Resealed) {})
	must(t, err)
	if done.AuditKeys != 2 || len(done.Unreadable) != 0 {
		t.Errorf("%+v", done)
	}
	r.keyed("n")
	r.write(3)
	r.seal()
	if r.green(early); !r.key().Equal(key) {
		t.Error("another key signs")
	}
	r.write(3)
	if _, err := before.Partition(t.Context(), r.space().Partition); err == nil || !strings.Contains(err.Error(), "not encrypted under this secret key") {
		t.Errorf("with the key before alone: %v", err)
	}
}

// An audit key that none of the secret keys opens is named.
func TestResealNamesAuditKeys(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.keyed("x")
	r.serve()
	ring, err := r.ring.AuditRing(t.Context())
	must(t, err)
	old := r.keyed("k")
	mark, err := old.Mark(rand.Reader)
	must(t, err)
	_, err = r.OnceSealed(t.Context(), mark, old.Sealing())
	must(t, err)
	r.keyed("n", "k")
	done, err := r.ring.Reseal(t.Context(), func(keyring.Resealed) {})
	must(t, err)
	if done.AuditKeys != 0 || !slices.Equal(done.Unreadable, []string{ring.Keys[0].ID}) {
		t.Errorf("%+v", done)
	}
}

// Another audit key signs from the next checkpoint on. What the one before has signed is
// still verified, in a history of before, too.
func TestAuditKeyIsRotated(t *testing.T) {
	t.Parallel()
	r, earlier := numbered(t)
	r.seal()
	before := r.key()
	must(t, r.ring.RotateAudit(t.Context()))
	r.write(3)
	r.seal()
	after := r.key()
	if after.Equal(before) {
		t.Fatal("the same key signs")
	}
	r.green(earlier)
	for _, c := range []struct {
		keys []ed25519.PublicKey
		want int // checkpoints that none of them has signed
	}{{[]ed25519.PublicKey{before, after}, 0}, {[]ed25519.PublicKey{before}, 2}} { // the last one is listed, too
		found := r.verify(auditor.Options{Keys: c.keys, Earlier: []string{earlier}}).Findings
		if len(found) != c.want {
			t.Errorf("who knows %d keys finds %v", len(c.keys), found)
		}
	}

	_, err := r.Histories.Accept(t.Context(), r.space().Partition, true, r.Now())
	must(t, err)
	r.write(1)
	must(t, r.ring.RotateAudit(t.Context()))
	r.seal()
	must(t, r.raw.XTrimMaxLen(t.Context(), r.space().AuditCheckpoints(), 1).Err()) // in days
	if report := r.green(); len(report.Trees) != 2 {
		t.Errorf("%+v", report.Trees)
	}
	// The retention has the tree of before signed again, by a key that its last leaf is not.
	for wait := r.newest(); r.newest() == wait; {
		r.write(1)
	}
	r.seal()
	_, err = r.own.Trim(t.Context(), r.space().Partition, r.Now().Add(1000*time.Hour))
	must(t, err)
	must(t, r.raw.XTrimMaxLen(t.Context(), r.space().AuditCheckpoints(), 1).Err())
	if report := r.green(); report.Trees[1].KeptFrom == 0 {
		t.Errorf("%+v", report.Trees)
	}
}
