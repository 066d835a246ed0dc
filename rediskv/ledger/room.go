// Package ledger keeps the transactions of payments and payouts, and their indexes.
package ledger

import (
	"embed"

	"tollgate/rediskv"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db *rediskv.DB
}

// New returns it on a database.
func New(db *rediskv.DB) *Store {
	return &Store{db: db}
}
