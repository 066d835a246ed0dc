// Package accounts keeps the configuration as instances keep it: accounts, grants, clients, perimeters, tokens.
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
