// Package accounts reads the configuration that payments are decided by: merchant
// accounts, grants, clients and perimeters. It issues tokens for grants.
package accounts

import (
	"context"
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
	near     *Store // the same on a replica nearby; nil: there is none
}

// New returns it on a database.
func New(db *rediskv.DB, rules *rules.Store, eventlog *eventlog.Store) *Store {
	return &Store{db: db, rules: rules, eventlog: eventlog}
}

// ReadFirst has what is not cached read from a replica. Everything later, and whatever
// speaks against it, comes from the primary.
func (s *Store) ReadFirst(near *Store) { s.near = near }

// isFirst says whether to read an object of an organization from the replica.
func (s *Store) isFirst(ctx context.Context, org string, key rediskv.Entry) bool {
	return s.near != nil && !s.db.Cache.Entries.Contains(key) && s.db.Near(ctx, org, 0)
}
