package keyring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tollgate"
	"tollgate/handlers/secret"
	"tollgate/rediskv"
	"tollgate/rediskv/instances"
	stored "tollgate/rediskv/keyring"
)

const (
	// answersKept is for how long an answer is kept for a repeat. One with an endpoint in
	// it, without its secret, is encrypted for its Idempotency-Key, which only the client
	// knows: nobody can encrypt it again.
	answersKept = 7 * 24 * time.Hour
	// takeover bounds how long the processes have to encrypt under another key once the
	// seal is that of it: workers that have two look every few seconds.
	takeover = 3 * time.Minute
	page     = 100
)

// Resealed is how far the change to another secret key has come.
type Resealed struct {
	SecretKey   string           `json:"secret_key"`   // id of the key that everybody encrypts with
	SigningKeys int              `json:"signing_keys"` // encrypted again
	AuditKeys   int              `json:"audit_keys"`   // that sign checkpoints, the same
	Endpoints   int              `json:"endpoints"`    // webhook endpoints, the same
	Looked      int              `json:"looked"`       // at endpoints
	Unreadable  []string         `json:"unreadable"`   // opened by no key
	KeepUntil   tollgate.Instant `json:"keep_until"`   // the earlier key is needed until then; null: no longer, but for cursors
}

// Reseal has everybody encrypt under the newest secret key of the vault, and encrypts
// again what is under an earlier one. It is run while the service runs, goes on where it
// stopped, and ends only when nothing is left that needs the earlier key. Every process has
// to have both first.
func (k *Keyring) Reseal(ctx context.Context, progress func(Resealed)) (r Resealed, err error) {
	newest := k.Vault.IDs()[0]
	since, err := k.switchSeal(ctx, newest)
	if err != nil {
		return r, err
	}
	r.SecretKey = newest
	if since != 0 && tollgate.At(k.Clock()) < since.Add(answersKept) {
		r.KeepUntil = since.Add(answersKept)
	}
	if err := k.await(ctx, newest); err != nil {
		return r, err
	}
	if err := k.sealKeys(ctx, &r); err != nil {
		return r, err
	}
	if err := k.sealAuditKeys(ctx, &r); err != nil {
		return r, err
	}
	keys := r.Unreadable
	for found := true; found; { // until a whole pass finds nothing
		r.Looked, r.Unreadable = 0, slices.Clone(keys)
		if found, err = k.sealEndpoints(ctx, &r, progress); err != nil {
			return r, err
		}
	}
	return r, nil
}

// switchSeal puts the seal of a secret key in Redis, once every process has that key.
func (k *Keyring) switchSeal(ctx context.Context, newest string) (since tollgate.Instant, err error) {
	for range attempts {
		seal, since, err := k.Store.Seal(ctx)
		if err != nil {
			return 0, err
		}
		if err := k.Vault.Use([]byte(seal)); err != nil {
			return 0, err
		}
		if k.Vault.Sealing() == newest {
			return since, nil
		}
		lacking, err := k.lacking(ctx, func(has stored.Secrets) bool { return slices.Contains(has.Has, newest) })
		if err != nil {
			return 0, err
		}
		if len(lacking) > 0 {
			return 0, &LackingError{newest, lacking}
		}
		mark, err := k.Vault.Mark(k.Entropy)
		if err != nil {
			return 0, err
		}
		err = k.Store.ReplaceSeal(ctx, seal, string(mark), newest, tollgate.At(k.Clock()))
		if err != nil && !errors.Is(err, rediskv.ErrConflict) {
			return 0, err
		}
	}
	return 0, errors.New("seal: others change it all the time")
}

// LackingError: processes run that do not have a secret key yet.
type LackingError struct {
	SecretKey string
	Processes []string
}

func (e *LackingError) Error() string {
	return fmt.Sprintf("these processes do not have the secret key %s: %s. Start every serve and work with TOLLGATE_SECRET_KEY and TOLLGATE_SECRET_KEY_PREVIOUS, then run this again",
		e.SecretKey, strings.Join(e.Processes, ", "))
}

// lacking are the processes that have not said what they should. An instance that says
// nothing is of an earlier build.
func (k *Keyring) lacking(ctx context.Context, enough func(stored.Secrets) bool) ([]string, error) {
	known, err := k.Store.KnownSecrets(ctx, tollgate.At(k.Clock()))
	if err != nil {
		return nil, err
	}
	living, err := k.Store.Instances(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(known))
	for _, i := range living {
		names = append(names, i.ID)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return enough(known[name]) }), nil
}

// await waits until every process encrypts under a secret key.
func (k *Keyring) await(ctx context.Context, newest string) error {
	deadline := k.Clock().Add(takeover)
	for {
		lacking, err := k.lacking(ctx, func(has stored.Secrets) bool { return has.Uses == newest })
		if err != nil || len(lacking) == 0 {
			return err
		}
		if k.Clock().After(deadline) {
			return fmt.Errorf("these processes go on to encrypt under the earlier secret key: %s", strings.Join(lacking, ", "))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// again encrypts a secret again, where that is to be done.
func (k *Keyring) again(place string, sealed *[]byte) (done bool, err error) {
	text, err := k.Vault.Again(k.Entropy, place, *sealed)
	if text == nil {
		return false, err
	}
	*sealed = text
	return true, nil
}

// sealOne encrypts a private key again and counts it, or names it where no secret key
// opens it.
func (k *Keyring) sealOne(r *Resealed, sealedAgain *int, id, place string, sealed *[]byte) error {
	done, err := k.again(place, sealed)
	switch {
	case errors.Is(err, secret.ErrUnreadable):
		r.Unreadable = append(r.Unreadable, id)
		return nil
	case done:
		*sealedAgain++
	}
	return err
}

// sealKeys encrypts the signing keys again, all in one step.
func (k *Keyring) sealKeys(ctx context.Context, r *Resealed) error {
	return k.change(ctx, func(ring *Ring, _ tollgate.Instant) error {
		r.SigningKeys, r.Unreadable = 0, []string{}
		for i := range ring.Keys {
			if err := k.sealOne(r, &r.SigningKeys, ring.Keys[i].ID, place(ring.Keys[i].ID), &ring.Keys[i].Sealed); err != nil {
				return err
			}
		}
		return nil
	})
}

// sealEndpoints encrypts the secrets of all webhook endpoints again.
func (k *Keyring) sealEndpoints(ctx context.Context, r *Resealed, progress func(Resealed)) (found bool, err error) {
	err = k.Store.Organizations(ctx, instances.Listing{}, func(orgs []string) error {
		for _, org := range orgs {
			for after, more := "", true; more; {
				rows, next, err := k.Store.Webhooks(ctx, rediskv.Caller{Organization: org}, after, page)
				if err != nil {
					return err
				}
				for i := range rows {
					w := &rows[i]
					after = w.ID
					r.Looked++
					stale, err := k.sealEndpoint(ctx, r, org, w)
					if w.Damaged || errors.Is(err, secret.ErrUnreadable) {
						r.Unreadable = append(r.Unreadable, w.ID)
					} else if err != nil {
						return err
					}
					found = found || stale
				}
				more = next
			}
		}
		progress(*r)
		return nil
	})
	return found, err
}

// sealEndpoint reports whether it has found something to encrypt again. Where somebody
// else was faster, the next pass finds it again.
func (k *Keyring) sealEndpoint(ctx context.Context, r *Resealed, org string, w *tollgate.StoredWebhook) (found bool, err error) {
	for i := range w.Sealed {
		one := &w.Sealed[i]
		done, err := k.again(tollgate.SigningKeyPlace(w.ID, one.Version, one.Scheme), &one.Secret)
		if err != nil {
			return false, err
		}
		found = found || done
	}
	if !found {
		return false, nil
	}
	err = k.Store.CommitSecrets(ctx, org, w)
	if errors.Is(err, rediskv.ErrConflict) {
		return true, nil
	}
	if err == nil {
		r.Endpoints++
	}
	return true, err
}

// use encrypts from now on under the secret key that a seal is of.
func (k *Keyring) use(seal string) error {
	if seal == "" {
		return nil
	}
	if err := k.Vault.Use([]byte(seal)); err != nil {
		return err
	}
	k.Store.Sealed(seal)
	return nil
}

// say says which secret keys a process has: when that changes, and each half minute.
func (k *Keyring) say(ctx context.Context, process string) error {
	has := stored.Secrets{Has: k.Vault.IDs(), Uses: k.Vault.Sealing(), SaidAt: tollgate.At(k.Clock())}
	k.mu.Lock()
	known := k.secrets.Uses == has.Uses && has.SaidAt < k.secrets.SaidAt.Add(saying)
	k.mu.Unlock()
	if known {
		return nil
	}
	if err := k.Store.SaySecrets(ctx, process, has); err != nil {
		return err
	}
	k.mu.Lock()
	k.secrets = has
	k.mu.Unlock()
	return nil
}

// saying is how often a process says which secret keys it has.
const saying = 30 * time.Second

// Attend is for a process that follows no document: it reads the seal.
func (k *Keyring) Attend(ctx context.Context, process string) error {
	seal, _, err := k.Store.Seal(ctx)
	if err != nil {
		return err
	}
	if err := k.use(seal); err != nil {
		return err
	}
	return k.say(ctx, process)
}
