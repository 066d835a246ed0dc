// Package provision reads what is configured as a whole, and commits what an
// operator changes in it.
package provision

import (
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/rules"
)

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db       *rediskv.DB
	accounts *accounts.Store
	rules    *rules.Store
}

// New returns it on a database.
func New(db *rediskv.DB, accounts *accounts.Store, rules *rules.Store) *Store {
	return &Store{db: db, accounts: accounts, rules: rules}
}
