package accounts

import (
	"context"
	"maps"
	"slices"

	"tollgate"
	"tollgate/rediskv"
)

// preloadSize bounds what is read ahead: beyond it the cache holds what is used.
const preloadSize = 20_000

// Preload reads what quotes of an active organization need, its accounts and
// its grants, as far as the cache has room and does not have it as it is now.
// Quotes then go on while Redis is away, also those of accounts that nobody has
// asked for before. What is damaged is left out: the request that needs it says
// so. Errors: store_unavailable.
func (s *Store) Preload(ctx context.Context, org string) error {
	o, err := s.Organization(ctx, org)
	if err != nil || o.Status != tollgate.StatusActive {
		return onlyAway(err)
	}
	grants, err := s.ListedGrants(ctx, s.db.Space(org))
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(grants.Clients)) {
		err := s.readAhead(grantEntry(org, id), func() error { _, err := s.Grant(ctx, org, id); return err })
		if err != nil {
			return err
		}
	}
	for _, id := range o.AccountIDs {
		err := s.readAhead(accountEntry(org, id), func() error { _, err := s.Account(ctx, org, id); return err })
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// readAhead reads an entry that the cache wants. One that is old is served where
// it cannot be read, and is then still wanted.
func (s *Store) readAhead(key rediskv.Entry, read func() error) error {
	if !wants(s.db.Cache, key) {
		return nil
	}
	if err := read(); err != nil {
		return onlyAway(err)
	}
	if e, ok := s.db.Cache.Entries.Peek(key); ok && isOld(e) {
		return &tollgate.Error{Code: tollgate.CodeStoreUnavailable, Message: "The configuration could not be read."}
	}
	return nil
}

// Stale names, once after everything was marked as changed, the organizations
// of which something is cached that has not been read since.
func (s *Store) Stale() []string {
	if !s.db.Cache.Lost.Swap(false) {
		return nil
	}
	orgs := make(map[string]bool)
	for _, e := range s.db.Cache.Entries.Values() {
		if e.Org != "" && isOld(e) {
			orgs[e.Org] = true
		}
	}
	return slices.Sorted(maps.Keys(orgs))
}

// wants reports whether an entry is to be read ahead: it is known to be old, or
// there is none, and room for it.
func wants(c *rediskv.Cache, key rediskv.Entry) bool {
	e, ok := c.Entries.Peek(key)
	if !ok {
		return c.Entries.Len() < preloadSize
	}
	return isOld(e)
}

func isOld(e *rediskv.Cached) bool {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	return e.Old
}

// onlyAway is an error of a Redis that cannot be reached; others are nil.
func onlyAway(err error) error {
	if rediskv.Away(err) {
		return err
	}
	return nil
}
