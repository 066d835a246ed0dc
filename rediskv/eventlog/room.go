// Package eventlog reads an organization's log of events in pages, waits for what
// is to come, and trims what has been kept long enough.
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

	tails   *tails
	archive Archive // nil: there is none
	tickets Tickets
}

// New returns it on a database.
func New(db *rediskv.DB) *Store {
	return &Store{db: db, tails: newTails()}
}
