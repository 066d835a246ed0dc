// Package keyring gives the keys that sign access tokens a life (interface §5): a key is
// published before it signs, so that whoever keeps the key set for a day has it by then,
// signs for a month, and is published on for as long as its tokens may be looked at. All
// processes share one document in Redis; private halves in it are encrypted.
package keyring

import (
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

const (
	// Ahead is how long a key is published before it signs.
	Ahead = 24 * time.Hour
	// Life is how long it signs, as long as the next one is made in time.
	Life = 30 * 24 * time.Hour
	// Kept is how long it is published after that.
	Kept = 24 * time.Hour

	// An instance says renewed again and again that it has a key of its own; seen is
	// for how long the others believe it.
	seen    = 24 * time.Hour
	renewed = time.Hour
	// maxRevoked bounds what is remembered of keys that were revoked, maxChanges of
	// changes: no more than that are made while a call to Redis lasts.
	maxRevoked = 64
	maxChanges = 16
)

// Ring is the document. Its zero value has no keys.
type Ring struct {
	Keys     []Key      `json:"keys"`     // made here, by when they begin to sign
	External []External `json:"external"` // of instances that were given one
	Revoked  []Revoked  `json:"revoked"`  // never taken from an instance again, the latest first
	Changes  []string   `json:"changes"`  // ids of the latest, the last one first
}

// Key is a key that was made here.
type Key struct {
	ID       string           `json:"kid"`
	Public   jsontext.Value   `json:"public"` // JWK
	Sealed   []byte           `json:"sealed"` // the private JWK, encrypted
	MadeAt   tollgate.Instant `json:"made_at"`
	ActiveAt tollgate.Instant `json:"active_at"` // it signs from then on, until the next one does
}

// External is the public half of a key that an instance was given
// (TOLLGATE_SIGNING_KEY): all verify what it signs.
type External struct {
	ID     string           `json:"kid"`
	Public jsontext.Value   `json:"public"`
	SeenAt tollgate.Instant `json:"seen_at"`
}

// Until is for how long it is published, if no instance says any more that it has it.
func (e *External) Until() tollgate.Instant { return e.SeenAt.Add(seen) }

// Revoked is a key that nothing may be verified with.
type Revoked struct {
	ID string           `json:"kid"`
	At tollgate.Instant `json:"revoked_at"`
}

// State is what a key of a Ring is there for.
type State string

const (
	Next        State = "next"     // published, and to sign later
	Active      State = "active"   // signs
	Retired     State = "retired"  // published, and has signed
	FromOutside State = "external" // signs where an instance was given it
)

// Why a change of the keys is refused.
var (
	ErrUnknown = errors.New("there is no such key: 'tollgate key list' has them")
	ErrNext    = errors.New("the next key is published already: 'tollgate key rotate --now' has it sign at once")
)

// active is the position of the key that signs at a time, or -1.
func (r *Ring) active(now tollgate.Instant) int {
	for i := len(r.Keys) - 1; i >= 0; i-- {
		if r.Keys[i].ActiveAt <= now {
			return i
		}
	}
	return -1
}

// StateOf is that of Keys[i].
func (r *Ring) StateOf(i int, now tollgate.Instant) State {
	switch active := r.active(now); {
	case i > active:
		return Next
	case i == active:
		return Active
	default:
		return Retired
	}
}

// RemovedAt is when Keys[i] is published no longer; 0: that is not known yet.
func (r *Ring) RemovedAt(i int) tollgate.Instant {
	if i == len(r.Keys)-1 {
		return 0
	}
	return r.Keys[i+1].ActiveAt.Add(Kept)
}

// Due reports whether the key that follows the last one is to be made, and when it is
// to sign. Without any key there is none to follow.
func (r *Ring) Due(now tollgate.Instant) (activeAt tollgate.Instant, due bool) {
	if len(r.Keys) == 0 {
		return 0, false
	}
	end := r.Keys[len(r.Keys)-1].ActiveAt.Add(Life)
	return max(end, now.Add(Ahead)), now >= end.Add(-Ahead)
}

// Trim removes what is to be published no longer.
func (r *Ring) Trim(now tollgate.Instant) {
	for len(r.Keys) > 1 && r.RemovedAt(0) <= now {
		r.Keys = slices.Delete(r.Keys, 0, 1)
	}
	r.External = slices.DeleteFunc(r.External, func(e External) bool { return e.Until() <= now })
}

// Add takes a key that was made. One that is to sign at once comes before a next one
// that there is: that one keeps its time.
func (r *Ring) Add(k Key) {
	r.Keys = append(r.Keys, k)
	sort.SliceStable(r.Keys, func(i, j int) bool { return r.Keys[i].ActiveAt < r.Keys[j].ActiveAt })
}

// Activate has the next key sign from now on, which was published for a while. It
// reports false where there is none.
func (r *Ring) Activate(now tollgate.Instant) bool {
	i := r.active(now) + 1
	if i == len(r.Keys) {
		return false
	}
	r.Keys[i].ActiveAt = now
	return true
}

// See takes the public half of a key that an instance was given, and reports whether
// there was something to write down.
func (r *Ring) See(e External) bool {
	i := slices.IndexFunc(r.External, func(have External) bool { return have.ID == e.ID })
	switch {
	case r.IsRevoked(e.ID) || slices.ContainsFunc(r.Keys, func(k Key) bool { return k.ID == e.ID }):
		return false
	case i < 0:
		r.External = append(r.External, e)
		sort.Slice(r.External, func(i, j int) bool { return r.External[i].ID < r.External[j].ID })
		return true
	case e.SeenAt < r.External[i].SeenAt.Add(renewed):
		return false
	default:
		r.External[i].SeenAt = e.SeenAt
		return true
	}
}

// Revoke takes a key out. What it signed is refused from then on.
func (r *Ring) Revoke(id string, now tollgate.Instant) error {
	before := len(r.Keys) + len(r.External)
	r.Keys = slices.DeleteFunc(r.Keys, func(k Key) bool { return k.ID == id })
	r.External = slices.DeleteFunc(r.External, func(e External) bool { return e.ID == id })
	if len(r.Keys)+len(r.External) == before {
		return ErrUnknown
	}
	r.Revoked = slices.Insert(r.Revoked, 0, Revoked{ID: id, At: now})
	r.Revoked = r.Revoked[:min(len(r.Revoked), maxRevoked)]
	if len(r.Keys) > 0 && r.active(now) < 0 && len(r.External) == 0 {
		r.Activate(now)
	}
	return nil
}

// IsRevoked reports whether a key was taken out.
func (r *Ring) IsRevoked(id string) bool {
	return slices.ContainsFunc(r.Revoked, func(k Revoked) bool { return k.ID == id })
}

// behind reports whether a document is one that was there before a known one: Redis has
// lost the changes since, or everything.
func (r *Ring) behind(known *Ring) bool {
	if len(r.Changes) == 0 {
		return len(known.Changes) > 0
	}
	return slices.Index(known.Changes, r.Changes[0]) > 0
}

// Signs reports whether anybody has a key to sign with.
func (r *Ring) Signs() bool { return len(r.Keys)+len(r.External) > 0 }

// Published are the public JWKs of all keys, in an order that is the same everywhere.
func (r *Ring) Published() [][]byte {
	var list [][]byte
	for _, k := range r.Keys {
		list = append(list, k.Public)
	}
	for _, e := range r.External {
		list = append(list, e.Public)
	}
	return list
}

// Signing is the key that signs at a time, or nil.
func (r *Ring) Signing(now tollgate.Instant) *Key {
	if i := r.active(now); i >= 0 {
		return &r.Keys[i]
	}
	return nil
}

// Late reports whether the key that signs should have had a next one for an hour.
func (r *Ring) Late(now tollgate.Instant) bool {
	_, due := r.Due(now.Add(-time.Hour))
	return due
}

// Next is the key that is published and to sign later, or nil.
func (r *Ring) Next(now tollgate.Instant) *Key {
	if i := r.active(now) + 1; i < len(r.Keys) {
		return &r.Keys[i]
	}
	return nil
}
