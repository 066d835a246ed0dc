package handlers

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"tollgate"
)

// entropy lets one goroutine at a time read randomness.
type entropy struct {
	lock   sync.Mutex
	source io.Reader
}

// Read reads from the source.
func (e *entropy) Read(p []byte) (int, error) {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.source.Read(p)
}

// addKeys gives an endpoint a new version of its keys for the schemes. The
// secret that its owner must be shown is returned; it is empty when all of
// them are v1a, whose public half is in the endpoint.
func (s *Server) addKeys(w *tollgate.Endpoint, schemes []tollgate.SignatureScheme, now tollgate.Instant) (secret string, err error) {
	version := newest(w.SigningKeys) + 1
	for _, scheme := range schemes {
		key, err := tollgate.NewWebhookKey(version, scheme, s.entropy)
		if err != nil {
			return "", err
		}
		shown := tollgate.SigningKey{Version: version, Scheme: scheme, CreatedAt: now}
		text := key.Text()
		if scheme == tollgate.SignatureV1a {
			shown.PublicKey = &text
		} else {
			secret = text
		}
		sealed, err := s.vault.Seal(s.entropy, fmt.Sprintf("%s/%d/%s", w.ID, version, scheme), key.Secret)
		if err != nil {
			return "", err
		}
		w.SigningKeys = append(w.SigningKeys, shown)
		w.Sealed = append(w.Sealed, tollgate.SealedKey{Version: version, Scheme: scheme, Secret: sealed})
	}
	return secret, nil
}

// rotateKeys makes a new version for every scheme of the endpoint. The others
// sign on for overlap, or as long as they would have anyway, so that a
// receiver can change over (interface §6).
func (s *Server) rotateKeys(w *tollgate.Endpoint, overlap time.Duration, now tollgate.Instant) (secret string, err error) {
	end := now.Add(overlap)
	for i := range w.SigningKeys {
		if k := &w.SigningKeys[i]; k.ExpiresAt == 0 || k.ExpiresAt > end {
			k.ExpiresAt = end
		}
	}
	if secret, err = s.addKeys(w, w.SignatureScheme.Schemes(), now); err != nil {
		return "", err
	}
	trimKeys(w, now)
	return secret, nil
}

// matchKeys follows a change of the signature scheme: keys of a scheme that
// is no longer chosen end at once, and one is made for a scheme without.
func (s *Server) matchKeys(w *tollgate.Endpoint, now tollgate.Instant) (secret string, err error) {
	missing := slices.Clone(w.SignatureScheme.Schemes())
	for i := range w.SigningKeys {
		k := &w.SigningKeys[i]
		switch {
		case !k.Live(now):
		case slices.Contains(w.SignatureScheme.Schemes(), k.Scheme):
			missing = slices.DeleteFunc(missing, func(scheme tollgate.SignatureScheme) bool { return scheme == k.Scheme })
		default:
			k.ExpiresAt = now
		}
	}
	secret, err = s.addKeys(w, missing, now)
	trimKeys(w, now)
	return secret, err
}

// trimKeys forgets the oldest of too many versions that live, and keys that
// sign nothing any more. The newest version is kept all the same, so that its
// number is never given to another key.
func trimKeys(w *tollgate.Endpoint, now tollgate.Instant) {
	var live []int
	for _, k := range w.SigningKeys {
		if k.Live(now) && !slices.Contains(live, k.Version) {
			live = append(live, k.Version)
		}
	}
	slices.Sort(live)
	extra := live[:max(0, len(live)-tollgate.MaxSigningKeys)]
	last := newest(w.SigningKeys)
	w.SigningKeys = slices.DeleteFunc(w.SigningKeys, func(k tollgate.SigningKey) bool {
		return slices.Contains(extra, k.Version) || (!k.Live(now) && k.Version < last)
	})
	w.Sealed = slices.DeleteFunc(w.Sealed, func(sealed tollgate.SealedKey) bool {
		return !slices.ContainsFunc(w.SigningKeys, func(k tollgate.SigningKey) bool {
			return k.Version == sealed.Version && k.Scheme == sealed.Scheme
		})
	})
}

func newest(keys []tollgate.SigningKey) (version int) {
	for _, k := range keys {
		version = max(version, k.Version)
	}
	return version
}
