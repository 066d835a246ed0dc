// Package payments commits a payment's changes, each with its ticket, events,
// transactions and counters, and reads payments and tickets.
package payments

import (
	"embed"

	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payouts"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db      *rediskv.DB
	ledger  *ledger.Store
	payouts *payouts.Store
	copies  *copies
}

// New returns it on a database.
func New(db *rediskv.DB, ledger *ledger.Store, payouts *payouts.Store) *Store {
	return &Store{db: db, ledger: ledger, payouts: payouts, copies: newCopies(db.PaymentBytes)}
}

// Share keeps what this reads together with what another one does: a change of a
// payment that was read from the replica is computed from that.
func (s *Store) Share(with *Store) { s.copies = with.copies }
