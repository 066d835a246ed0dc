// Package payouts closes sales days and takes each payout from its first step to
// its last.
package payouts

import (
	"embed"

	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db     *rediskv.DB
	ledger *ledger.Store
}

// New returns it on a database.
func New(db *rediskv.DB, ledger *ledger.Store) *Store {
	return &Store{db: db, ledger: ledger}
}
