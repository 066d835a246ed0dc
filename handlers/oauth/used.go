package oauth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// mostProofs bounds how many used proofs an instance remembers.
const mostProofs = 200_000

// usedProofs remembers the proofs that were used at this instance for as long as their
// nonces are good. They expire in the order in which they come.
type usedProofs struct {
	mu     sync.Mutex
	used   map[[sha256.Size]byte]struct{}
	oldest []usedProof
}

type usedProof struct {
	id [sha256.Size]byte
	at time.Time
}

// use reports whether a proof is used for the first time. full: there is no room to
// remember it.
func (u *usedProofs) use(thumbprint, jti string, now time.Time, life time.Duration) (first, full bool) {
	id := sha256.Sum256([]byte(thumbprint + jti)) // a thumbprint has one length
	u.mu.Lock()
	defer u.mu.Unlock()
	gone := 0
	for gone < len(u.oldest) && now.Sub(u.oldest[gone].at) > life {
		delete(u.used, u.oldest[gone].id)
		gone++
	}
	u.oldest = u.oldest[gone:]
	if _, there := u.used[id]; there {
		return false, false
	}
	if len(u.used) >= mostProofs {
		return false, true
	}
	if u.used == nil {
		u.used = map[[sha256.Size]byte]struct{}{}
	}
	u.used[id] = struct{}{}
	u.oldest = append(u.oldest, usedProof{id, now})
	return true, false
}
