// Package instances keeps what the instances of the API say of themselves, and which activations are to come.
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
