// Package rules keeps published rules, the rule sets they are active in, and
// shadows.
package rules

import (
	"embed"

	"tollgate/rediskv"
	"tollgate/rediskv/instances"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db        *rediskv.DB
	instances *instances.Store
}

// New returns it on a database.
func New(db *rediskv.DB, instances *instances.Store) *Store {
	return &Store{db: db, instances: instances}
}
