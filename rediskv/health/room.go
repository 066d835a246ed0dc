// Package health knows how Redis is: whether it takes writes, what it promises about
// what is in it, and how far its clock is from this machine's.
package health

import (
	"embed"
	"sync"

	"tollgate/rediskv"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db  *rediskv.DB
	own chan struct{} // whoever has put something in follows

	reconnected chan struct{}

	mu       sync.Mutex
	last     pulse
	clock    reading
	findings []Finding
}

// New returns it on a database.
func New(db *rediskv.DB) *Store {
	s := &Store{db: db, own: make(chan struct{}, 1), reconnected: make(chan struct{}, 1)}
	if !db.IsView() {
		db.OnReconnect(func() {
			select {
			case s.reconnected <- struct{}{}:
			default:
			}
		})
	}
	return s
}
