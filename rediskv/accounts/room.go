// Package accounts reads the configuration that payments are decided by: merchant
// accounts, grants, clients and perimeters. It issues tokens for grants.
package accounts

import (
	"embed"

	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/rules"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db       *rediskv.DB
	rules    *rules.Store
	eventlog *eventlog.Store
}

// New returns it on a database.
func New(db *rediskv.DB, rules *rules.Store, eventlog *eventlog.Store) *Store {
	return &Store{db: db, rules: rules, eventlog: eventlog}
}
