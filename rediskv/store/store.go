// Package store is the whole of Tollgate's state in Redis, made of its rooms.
package store

import (
	"context"

	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/agenda"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/health"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/keyring"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/payouts"
	"tollgate/rediskv/postings"
	"tollgate/rediskv/provision"
	"tollgate/rediskv/rules"
	"tollgate/rediskv/sandbox"
	"tollgate/rediskv/webhooks"
)

// The rooms by names that do not hide their methods.
type (
	accountsRoom  = accounts.Store
	agendaRoom    = agenda.Store
	audittreeRoom = audittree.Store
	checksRoom    = checks.Store
	eventlogRoom  = eventlog.Store
	exportsRoom   = exports.Store
	healthRoom    = health.Store
	instancesRoom = instances.Store
	keyringRoom   = keyring.Store
	ledgerRoom    = ledger.Store
	paymentsRoom  = payments.Store
	payoutsRoom   = payouts.Store
	provisionRoom = provision.Store
	rulesRoom     = rules.Store
	sandboxRoom   = sandbox.Store
	webhooksRoom  = webhooks.Store
)

// Store is all of the state. It is safe for concurrent use.
type Store struct {
	*rediskv.DB
	*accountsRoom
	*agendaRoom
	*audittreeRoom
	*checksRoom
	*eventlogRoom
	*exportsRoom
	*healthRoom
	*instancesRoom
	*keyringRoom
	*ledgerRoom
	*paymentsRoom
	*payoutsRoom
	*provisionRoom
	*rulesRoom
	*sandboxRoom
	*webhooksRoom

	near *Store // the same on the replica; nil: there is none
}

// Open connects as rediskv.Open does.
func Open(ctx context.Context, o rediskv.Options) (*Store, error) {
	db, err := rediskv.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s := on(db)
	if view := db.View(); view != nil {
		s.near = on(view)
		s.ReadFirst(s.near.accountsRoom)
		s.near.Share(s.paymentsRoom)
	}
	return s, nil
}

// Offline is a Store of what is kept, as rediskv.Offline says.
func Offline(o rediskv.Options, kept rediskv.Keeper, partitions int, seal string) (*Store, error) {
	db, err := rediskv.Offline(o, kept, partitions, seal)
	if err != nil {
		return nil, err
	}
	return on(db), nil
}

// Near is the Store to read an organization from, as rediskv.DB.Near says, or nil.
func (s *Store) Near(ctx context.Context, org string, least int64) *Store {
	if !s.DB.Near(ctx, org, least) {
		return nil
	}
	return s.near
}

func on(db *rediskv.DB) *Store {
	s := &Store{DB: db}
	s.agendaRoom = agenda.New(db)
	s.eventlogRoom = eventlog.New(db)
	s.audittreeRoom = audittree.New(db, s.eventlogRoom)
	s.instancesRoom = instances.New(db)
	s.keyringRoom = keyring.New(db)
	s.ledgerRoom = ledger.New(db)
	s.rulesRoom = rules.New(db, s.instancesRoom)
	s.accountsRoom = accounts.New(db, s.rulesRoom, s.eventlogRoom)
	s.payoutsRoom = payouts.New(db, s.ledgerRoom)
	s.paymentsRoom = payments.New(db, s.ledgerRoom, s.payoutsRoom)
	s.provisionRoom = provision.New(db, s.accountsRoom, s.rulesRoom)
	s.webhooksRoom = webhooks.New(db, s.ledgerRoom, s.eventlogRoom)
	s.healthRoom = health.New(db)
	s.sandboxRoom = sandbox.New(db)
	s.exportsRoom = exports.New(db, s.ledgerRoom, s.eventlogRoom)
	s.checksRoom = checks.New(db, s.accountsRoom, s.eventlogRoom, s.keyringRoom, s.ledgerRoom)
	return s
}

// UseArchive has payments looked for in an archive that Redis does not have.
func (s *Store) UseArchive(a ledger.Archive) {
	s.ledgerRoom.UseArchive(a)
	if s.near != nil {
		s.near.UseArchive(a)
	}
}

// LogArchive has what packs of logs have, and of posting lists.
type LogArchive interface {
	eventlog.Archive
	postings.Archive
}

// UseLogs has entries of logs and postings looked for in packs that Redis does not have. The
// archive of payments, if it is used as well, has tickets that say which events these have.
func (s *Store) UseLogs(a LogArchive) {
	s.ledgerRoom.UsePostings(a)
	s.eventlogRoom.UseArchive(a, func(ctx context.Context, k rediskv.Space, id string) (string, error) {
		r, err := s.ledgerRoom.ArchivedPayment(ctx, k, id)
		if rediskv.IsDamage(err) {
			return "", nil // its events are looked for in the log
		}
		if r == nil || err != nil {
			return "", err
		}
		return r.Ticket, nil
	})
	if s.near != nil {
		s.near.UseLogs(a)
	}
}

// Close ends the connections, and the looks of those who wait for events.
func (s *Store) Close() error {
	s.eventlogRoom.Close()
	return s.DB.Close()
}
