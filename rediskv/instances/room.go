// Package instances keeps the heartbeat of every instance of the service, and
// tells each which rule modules it must have.
package instances

import (
	"tollgate/rediskv"
)

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db *rediskv.DB
}

// New returns it on a database.
func New(db *rediskv.DB) *Store {
	return &Store{db: db}
}
