// Package exports keeps export jobs, reads the rows they write, and keeps the files.
package exports

import (
	"embed"
	"sync/atomic"

	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db     *rediskv.DB
	ledger *ledger.Store
	events *eventlog.Store

	lastExport []atomic.Pointer[string] // by partition: the organization that had the last turn
}

// New returns it on a database.
func New(db *rediskv.DB, ledger *ledger.Store, events *eventlog.Store) *Store {
	return &Store{db: db, ledger: ledger, events: events, lastExport: make([]atomic.Pointer[string], db.Partitions())}
}
