// Package webhooks keeps webhook endpoints with their deliveries, every attempt,
// and the queues of the workers.
package webhooks

import (
	"embed"
	"sync"
	"sync/atomic"

	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/streams"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db     *rediskv.DB
	ledger *ledger.Store
	events *eventlog.Store

	claims      []atomic.Int32             // by partition: batches until the next look for what dead workers left
	leftOut     []atomic.Bool              // by partition: endpoints with a backlog were left out last time
	turns       []atomic.Pointer[[]string] // by partition: endpoints whose turn it was last time
	unanswered  unanswered
	made        fresh // deliveries that this Store has made and not taken yet
	recent      *streams.Recent
	apart       atomic.Int64 // milliseconds that Redis' time is ahead of the Store's clock, as the last script said
	directories sync.Map     // by organization: *directory
	endpoints   sync.Map     // by organization/id: *knownEndpoint, of those that have had something queued lately
}

// recentSegments are kept unpacked while a backlog is delivered: 4 MB.
const recentSegments = 16

// New returns it on a database.
func New(db *rediskv.DB, ledger *ledger.Store, events *eventlog.Store) *Store {
	n := db.Partitions()
	return &Store{
		db: db, ledger: ledger, events: events, claims: make([]atomic.Int32, n), leftOut: make([]atomic.Bool, n), turns: make([]atomic.Pointer[[]string], n),
		unanswered: unanswered{of: make([][]*queueHead, n)}, made: fresh{is: make(map[string]*made)}, recent: streams.NewRecent(recentSegments),
	}
}
