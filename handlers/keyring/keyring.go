package keyring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/secret"
	"tollgate/rediskv"
	stored "tollgate/rediskv/keyring"
	"tollgate/rediskv/store"
)

// attempts bounds how often a change begins anew because others were faster.
const attempts = 20

// Config is what a Keyring works with; Log and External may be nil.
type Config struct {
	Store    *store.Store
	Vault    *secret.Vault
	Entropy  io.Reader        // safe for concurrent use
	Clock    func() time.Time // real time, by which tokens live
	Log      *slog.Logger
	External [][]byte // private JWKs that this process was given; the first signs
	Issuer   string   // of an instance, to be recorded for the names of audit trees
}

// Keyring is the document and, in an instance, the keys that it signs and verifies
// with. It is safe for concurrent use.
type Keyring struct {
	Config
	own []External // public halves of External

	opened   bool // this is an instance, which signs and verifies
	looked   bool // it has followed once
	recorded bool // its issuer

	mu      sync.Mutex
	secrets stored.Secrets // as it was last said
	keys    *auth.Keys
	text    string // the document that keys are made of
	ring    Ring   // the same
	said    string // what was logged last
}

// New checks a configuration.
func New(c Config) (*Keyring, error) {
	k := &Keyring{Config: c}
	if c.Log == nil {
		k.Log = slog.New(slog.DiscardHandler)
	}
	if len(c.External) > 0 {
		if _, err := auth.ParseSigningKeys(c.External...); err != nil {
			return nil, err
		}
	}
	for _, jwk := range c.External {
		public, id, err := auth.PublicSigningKey(jwk)
		if err != nil {
			return nil, err
		}
		k.own = append(k.own, External{ID: id, Public: public})
	}
	return k, nil
}

// Open reads the keys at the start of an instance. The first one of a deployment makes
// the first key; one that was given keys tells the others.
func (k *Keyring) Open(ctx context.Context) (*auth.Keys, error) {
	k.opened = true
	var err error
	if k.Store.IsOffline() {
		var found stored.Keyring
		if found, err = k.Store.Keyring(ctx); err == nil {
			err = k.take(found)
		}
	} else {
		err = k.changeFrom(ctx, k.Store.FirstKeyring, false, k.keep)
	}
	if isDamaged(err) && len(k.own) > 0 {
		k.Log.Error("signing keys", "error", err)
		err = nil
	}
	if err == nil && k.keys == nil {
		k.keys, err = k.keysOf(&k.ring)
	}
	return k.keys, err
}

func isDamaged(err error) bool {
	e, ok := errors.AsType[*tollgate.Error](err)
	return ok && e.Code == tollgate.CodeRecordDamaged
}

// Follow takes over a document and a seal that were just read, as Redis has them; it is
// called each second. process is the name of this one. Where Redis has lost the document,
// or changes of it, or it is damaged, the one that this instance knows is put back: no
// token ends by that, and no key that was revoked is back.
func (k *Keyring) Follow(ctx context.Context, process, text, seal string) {
	attended := k.use(seal)
	if k.looked && attended == nil {
		attended = cmp.Or(k.say(ctx, process), k.recordOnce(ctx))
	}
	k.looked = true // the first look is a start, which waits for no more than it needs
	found, err := k.Store.KeyringOf(text)
	if err == nil {
		err = k.take(found)
	}
	if isDamaged(err) && k.knows() {
		k.Log.Error("signing keys are put back", "error", err)
		err = k.changeFrom(ctx, k.Store.Keyring, true, k.keep)
	} else if err == nil && k.wants(found.JSON) {
		err = k.change(ctx, k.keep)
	}
	err = cmp.Or(err, attended)
	k.mu.Lock()
	defer k.mu.Unlock()
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != k.said && ctx.Err() == nil && !rediskv.Away(err) {
		k.Log.Error("signing keys", "error", said)
	}
	k.said = said
}

// take makes keys of a document, unless it is the one that they are made of.
func (k *Keyring) take(found stored.Keyring) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if found.JSON == k.text || !k.opened {
		return nil
	}
	ring, err := parse(found)
	if err != nil || ring.behind(&k.ring) {
		return err
	}
	keys, err := k.keysOf(&ring)
	switch {
	case errors.Is(err, errNone): // another one is made
	case err != nil:
		return err
	case k.keys == nil:
		k.keys = keys
	default:
		k.keys.Replace(keys)
	}
	k.text, k.ring = found.JSON, ring
	return nil
}

// knows reports whether this instance has read a document.
func (k *Keyring) knows() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text != ""
}

// wants reports whether this instance has something to write into a document that it has
// just seen.
func (k *Keyring) wants(document string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	ring := k.ring.clone()
	return document != k.text || k.see(&ring, tollgate.At(k.Clock())) || k.first(&ring)
}

// see puts the keys that this process was given into a document.
func (k *Keyring) see(r *Ring, now tollgate.Instant) (changed bool) {
	for _, e := range k.own {
		e.SeenAt = now
		changed = r.See(e) || changed
	}
	return changed
}

// first reports whether this process has nothing to sign with, and so makes the first
// key.
func (k *Keyring) first(r *Ring) bool {
	return len(r.Keys) == 0 && !slices.ContainsFunc(k.own, func(e External) bool { return !r.IsRevoked(e.ID) })
}

// keep decides what an instance has to write.
func (k *Keyring) keep(r *Ring, now tollgate.Instant) error {
	k.mu.Lock()
	if r.behind(&k.ring) {
		k.Log.Warn("signing keys are put back", "changes", len(k.ring.Changes)) // Redis has lost them
		*r = k.ring.clone()
	}
	k.mu.Unlock()
	r.Trim(now)
	k.see(r, now)
	if k.first(r) {
		return k.add(r, now, now)
	}
	return nil
}

// Maintain makes the next key when it is time, and removes what nobody needs any
// more. Any number of workers may do it at once.
func (k *Keyring) Maintain(ctx context.Context) error {
	return k.change(ctx, func(r *Ring, now tollgate.Instant) error {
		r.Trim(now)
		if activeAt, due := r.Due(now); due {
			return k.add(r, now, activeAt)
		}
		return nil
	})
}

// Rotate makes the next key before it is time: it signs in a day, or at once. A next
// key that is published already signs at once instead. In the place of a document that
// is damaged a new one begins, at once.
func (k *Keyring) Rotate(ctx context.Context, atOnce bool) error {
	return k.changeFrom(ctx, k.Store.Keyring, atOnce, func(r *Ring, now tollgate.Instant) error {
		switch {
		case atOnce && r.Activate(now):
			return nil
		case atOnce:
			return k.add(r, now, now)
		case r.Next(now) != nil:
			return ErrNext
		default:
			return k.add(r, now, now.Add(Ahead))
		}
	})
}

// Revoke takes a key out. Where nobody could sign any more, another one is made that
// signs at once.
func (k *Keyring) Revoke(ctx context.Context, id string) error {
	return k.change(ctx, func(r *Ring, now tollgate.Instant) error {
		if r.IsRevoked(id) {
			return nil
		}
		if err := r.Revoke(id, now); err != nil || r.Signs() {
			return err
		}
		return k.add(r, now, now)
	})
}

// Ring reads the document.
func (k *Keyring) Ring(ctx context.Context) (Ring, error) {
	found, err := k.Store.Keyring(ctx)
	if err != nil {
		return Ring{}, err
	}
	return parse(found)
}

// change replaces the document by what decide makes of it, unless that is the same.
func (k *Keyring) change(ctx context.Context, decide func(*Ring, tollgate.Instant) error) error {
	return k.changeFrom(ctx, k.Store.Keyring, false, decide)
}

// changeFrom is change where the document is first read in another way. anew: nothing
// is taken over from one that is damaged.
func (k *Keyring) changeFrom(ctx context.Context, read func(context.Context) (stored.Keyring, error), anew bool, decide func(*Ring, tollgate.Instant) error) error {
	for range attempts {
		var before Ring
		found, err := read(ctx)
		read = k.Store.Keyring
		if err == nil {
			before, err = parse(found)
		}
		if anew && isDamaged(err) {
			before, err = Ring{}, nil
		}
		if err != nil {
			return err
		}
		after := before.clone()
		if err := decide(&after, tollgate.At(k.Clock())); err != nil {
			return err
		}
		if same, err := before.equal(&after); err != nil || same {
			return cmp.Or(err, k.take(found))
		}
		change := k.Store.NewID("chg_")
		after.Changes = slices.Insert(after.Changes, 0, change)
		after.Changes = after.Changes[:min(len(after.Changes), maxChanges)]
		text, err := json.Marshal(after, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("keyring: %w", err)
		}
		switch err := k.Store.ReplaceKeyring(ctx, change, found, string(text)); {
		case errors.Is(err, rediskv.ErrConflict):
		case err != nil:
			return err
		default:
			k.tell(&before, &after)
			return k.take(stored.Keyring{JSON: string(text)})
		}
	}
	return errors.New("keyring: others change it all the time")
}

// tell logs which keys came and went.
func (k *Keyring) tell(before, after *Ring) {
	for _, key := range after.Keys {
		i := slices.IndexFunc(before.Keys, func(was Key) bool { return was.ID == key.ID })
		if i < 0 || before.Keys[i].ActiveAt != key.ActiveAt {
			k.Log.Info("signing key", "kid", key.ID, "signs_from", key.ActiveAt.String())
		}
	}
	for _, key := range before.Keys {
		if !slices.ContainsFunc(after.Keys, func(is Key) bool { return is.ID == key.ID }) {
			k.Log.Info("signing key removed", "kid", key.ID, "revoked", after.IsRevoked(key.ID))
		}
	}
}

// add makes a key.
func (k *Keyring) add(r *Ring, now, activeAt tollgate.Instant) error {
	private, public, id, err := k.generate()
	if err != nil {
		return err
	}
	sealed, err := k.Vault.Seal(k.Entropy, place(id), private)
	if err != nil {
		return err
	}
	r.Add(Key{ID: id, Public: public, Sealed: sealed, MadeAt: now, ActiveAt: activeAt})
	return nil
}

// generate makes a key whose id is no flag of a command line.
func (k *Keyring) generate() (private, public []byte, id string, err error) {
	for id == "" || strings.HasPrefix(id, "-") {
		if private, err = auth.GenerateSigningKey(k.Entropy); err != nil {
			return nil, nil, "", err
		}
		if public, id, err = auth.PublicSigningKey(private); err != nil {
			return nil, nil, "", err
		}
	}
	return private, public, id, nil
}

// place is what a private key is encrypted for.
func place(id string) string { return "signing/" + id }

var errNone = errors.New("there are no signing keys")

// keysOf are the keys of an instance: with those that it was given it signs, else with
// those of the document; it verifies with all.
func (k *Keyring) keysOf(r *Ring) (*auth.Keys, error) {
	var sign []auth.SigningKey
	published := r.Published()
	for i, e := range k.own {
		if r.IsRevoked(e.ID) {
			continue
		}
		published = append(published, e.Public)
		if len(sign) == 0 {
			sign = append(sign, auth.SigningKey{JWK: k.External[i]})
		}
	}
	if len(sign) == 0 {
		for _, key := range r.Keys {
			private, err := k.Vault.Open(place(key.ID), key.Sealed)
			if err != nil {
				return nil, fmt.Errorf("signing key %s is not encrypted under this secret key", key.ID)
			}
			sign = append(sign, auth.SigningKey{JWK: private, From: key.ActiveAt.Time()})
		}
	}
	if len(sign) == 0 {
		return nil, errNone
	}
	return auth.NewKeys(sign, published...)
}

// equal compares two documents as they are written.
func (r *Ring) equal(other *Ring) (bool, error) {
	one, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return false, err
	}
	two, err := json.Marshal(other, json.Deterministic(true))
	return string(one) == string(two), err
}

func (r *Ring) clone() Ring {
	return Ring{slices.Clone(r.Keys), slices.Clone(r.External), slices.Clone(r.Revoked), slices.Clone(r.Changes)}
}

// Parse reads a document as Redis has it.
func Parse(text string) (Ring, error) {
	found, err := stored.Parse(text)
	if err != nil {
		return Ring{}, err
	}
	return parse(found)
}

func parse(found stored.Keyring) (r Ring, err error) {
	if found.JSON == "" {
		return r, nil
	}
	if err = json.Unmarshal([]byte(found.JSON), &r); err != nil {
		err = tollgate.Damage("keyring", rediskv.KeyringKey, err)
	}
	return r, err
}
