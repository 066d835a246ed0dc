// Package checks reads everything of an organization back, a page at a time, and
// compares it (consistency.Finding). It writes nothing but repairs, each by a commit
// that compares what was read.
package checks

import (
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/keyring"
	"tollgate/rediskv/ledger"
)

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db       *rediskv.DB
	accounts *accounts.Store
	events   *eventlog.Store
	keyring  *keyring.Store
	ledger   *ledger.Store
}

// New returns it on a database.
func New(db *rediskv.DB, accounts *accounts.Store, events *eventlog.Store, keyring *keyring.Store, ledger *ledger.Store) *Store {
	return &Store{db: db, accounts: accounts, events: events, keyring: keyring, ledger: ledger}
}
