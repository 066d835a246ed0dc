// Package eventlog keeps the log of events: pages, one event, readers that wait, trimming.
package eventlog

import (
	"embed"
	"tollgate/rediskv"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db *rediskv.DB

	tails *tails
}

// New returns it on a database.
func New(db *rediskv.DB) *Store {
	return &Store{db: db, tails: newTails()}
}
