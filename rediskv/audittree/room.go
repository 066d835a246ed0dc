// Package audittree keeps the Merkle tree over each organization's audit record. The
// document says what is sealed, tiles have the hashes, and a stream the checkpoints. What
// they mean is for package tlog to say; here they are bytes, but for those of leaves, which
// are made again of entries that are in the archive.
//
// Entries are sealed behind the request that wrote them. One script puts the next
// document in the place of the one that was read, so two sealers make one tree.
package audittree

import (
	"embed"

	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db   *rediskv.DB
	logs *eventlog.Store
}

// New returns it on a database.
func New(db *rediskv.DB, logs *eventlog.Store) *Store { return &Store{db, logs} }
