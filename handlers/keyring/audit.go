package keyring

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	stored "tollgate/rediskv/keyring"
)

// AuditRing is the document with the keys that sign checkpoints of audit records. It is
// not in the Ring: an earlier build would write that without it.
type AuditRing struct {
	Issuer  string     `json:"issuer"`  // in the names of trees: the first that serves, for ever
	Keys    []AuditKey `json:"keys"`    // the last one signs; none is ever removed
	Changes []string   `json:"changes"` // ids of the latest, the last one first
}

// AuditKey is an Ed25519 key.
type AuditKey struct {
	ID     string           `json:"kid"`
	Public []byte           `json:"public"`
	Sealed []byte           `json:"sealed"` // the seed, encrypted
	MadeAt tollgate.Instant `json:"made_at"`
}

// AuditRing reads the document.
func (k *Keyring) AuditRing(ctx context.Context) (AuditRing, error) {
	r, _, err := k.auditRing(ctx)
	return r, err
}

func (k *Keyring) auditRing(ctx context.Context) (r AuditRing, found stored.Keyring, err error) {
	if found, err = k.Store.AuditKeys(ctx); err != nil || found.JSON == "" {
		return r, found, err
	}
	if err = json.Unmarshal([]byte(found.JSON), &r); err != nil {
		err = tollgate.Damage("keyring", rediskv.AuditKeysKey, err)
	}
	return r, found, err
}

// RecordIssuer has the trees of audit records named after an issuer, and makes the first
// key that signs their checkpoints. The worker knows neither without it. Where another
// issuer is recorded that one stays: witnesses know the trees by it.
func (k *Keyring) RecordIssuer(ctx context.Context, issuer string) error {
	return k.changeAudit(ctx, func(r *AuditRing, now tollgate.Instant) error {
		if r.Issuer == "" {
			r.Issuer = issuer
		}
		if len(r.Keys) > 0 {
			return nil
		}
		return k.addAudit(r, now)
	})
}

// recordOnce records the issuer of an instance behind its start.
func (k *Keyring) recordOnce(ctx context.Context) error {
	if k.recorded || k.Issuer == "" {
		return nil
	}
	err := k.RecordIssuer(ctx, k.Issuer)
	k.recorded = err == nil
	return err
}

// RotateAudit makes another key, which signs from now on. The public half of the one
// before is kept, so that what it has signed can be verified.
func (k *Keyring) RotateAudit(ctx context.Context) error {
	return k.changeAudit(ctx, k.addAudit)
}

func (k *Keyring) addAudit(r *AuditRing, now tollgate.Instant) error {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(k.Entropy, seed); err != nil {
		return fmt.Errorf("audit key: %w", err)
	}
	public, _ := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	id := hex.EncodeToString(sum[:16])
	sealed, err := k.Vault.Seal(k.Entropy, auditPlace(id), seed)
	if err != nil {
		return err
	}
	r.Keys = append(r.Keys, AuditKey{id, public, sealed, now})
	return nil
}

// auditPlace is what a seed is encrypted for.
func auditPlace(id string) string { return "audit/" + id }

// AuditSigner is who signs checkpoints. ok is false until an instance of the API has
// recorded the issuer.
func (k *Keyring) AuditSigner(ctx context.Context) (issuer string, key ed25519.PrivateKey, ok bool, err error) {
	r, err := k.AuditRing(ctx)
	if err != nil || r.Issuer == "" || len(r.Keys) == 0 {
		return "", nil, false, err
	}
	last := r.Keys[len(r.Keys)-1]
	seed, err := k.Vault.Open(auditPlace(last.ID), last.Sealed)
	if err != nil || len(seed) != ed25519.SeedSize {
		return "", nil, false, fmt.Errorf("audit key %s is not encrypted under this secret key", last.ID)
	}
	return r.Issuer, ed25519.NewKeyFromSeed(seed), true, nil
}

// changeAudit replaces the document by what decide makes of it, unless that is the same.
func (k *Keyring) changeAudit(ctx context.Context, decide func(*AuditRing, tollgate.Instant) error) error {
	for range attempts {
		r, found, err := k.auditRing(ctx)
		if err != nil {
			return err
		}
		r.Keys = slices.Clone(r.Keys)
		if err := decide(&r, tollgate.At(k.Clock())); err != nil {
			return err
		}
		if is, err := json.Marshal(r, json.Deterministic(true)); err != nil || string(is) == found.JSON {
			return err
		}
		change := k.Store.NewID("chg_")
		r.Changes = slices.Insert(r.Changes, 0, change)
		r.Changes = r.Changes[:min(len(r.Changes), maxChanges)]
		text, err := json.Marshal(r, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("audit keys: %w", err)
		}
		if err := k.Store.ReplaceAuditKeys(ctx, change, found, string(text)); !errors.Is(err, rediskv.ErrConflict) {
			return err
		}
	}
	return errors.New("audit keys: others change them all the time")
}

// sealAuditKeys encrypts them again, all in one step.
func (k *Keyring) sealAuditKeys(ctx context.Context, r *Resealed) error {
	return k.changeAudit(ctx, func(ring *AuditRing, _ tollgate.Instant) error {
		r.AuditKeys = 0
		for i := range ring.Keys {
			if err := k.sealOne(r, &r.AuditKeys, ring.Keys[i].ID, auditPlace(ring.Keys[i].ID), &ring.Keys[i].Sealed); err != nil {
				return err
			}
		}
		return nil
	})
}
