// Package postings keeps posting lists: for each value that transactions are searched
// for, the events that made a transaction with it, in their order. A search for a payee
// among millions reads a few kilobytes.
//
// The lists are derived data. They are written behind the requests, from the index of all
// transactions, up to one event after the other; what came later is found by looking. They
// can be thrown away at any time and are made again, so no copy of Redis needs them.
//
// What is in them hardly changes: a transaction keeps its payee, currency and type, and
// all but a payout's its reference. A payout is given one when it comes to an end. Until
// then it is posted as open, and each search for a reference looks at it. What does
// change, the status, has an index of its own (package ledger).
//
// With an archive, Redis has the lists of the latest events only. Those of earlier ones are
// moved to packs as they are, up to State.Cold. A payout that is open then stays posted as
// open for good, so that it is still found by what it is given later.
package postings

import (
	"embed"

	"tollgate/rediskv"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db      *rediskv.DB
	archive Archive // nil: there is none
}

// New returns it on a database.
func New(db *rediskv.DB) *Store { return &Store{db: db} }
