package provision

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// index finds all grants, each with its client, and what the set of all clients has.
// Those of an organization of which an earlier release kept no lists are searched
// once, and kept.
func (s *Store) index(ctx context.Context, k rediskv.Space) (list tollgate.GrantList, listed []string, err error) {
	if err := s.db.Timed(ctx, "read_access", func(ctx context.Context) error {
		var grants *redis.MapStringStringCmd
		var ids *redis.StringSliceCmd
		err := s.db.AtOnce(ctx, func(pipe redis.Pipeliner) {
			grants, ids = pipe.HGetAll(ctx, k.Grants()), pipe.SMembers(ctx, k.Clients())
		})
		list.Clients, listed = grants.Val(), ids.Val()
		return err
	}); err != nil {
		return list, nil, err
	}
	if err := s.db.DamagedAt(ctx, k.Grants(), rediskv.Counters(list.Clients)); err != nil {
		return list, nil, err
	}
	list.Revision = rediskv.Fields(list.Clients).Int("v")
	delete(list.Clients, "v")
	if list.Revision == 0 {
		if list, err = s.keepGrants(ctx, k); err != nil {
			return list, nil, err
		}
	}
	if !slices.Contains(listed, rediskv.AllClients) {
		listed, err = s.keepClients(ctx, k, listed)
	}
	return list, listed, err
}

// clientsOf are all clients that the lists name.
func clientsOf(list tollgate.GrantList, listed []string) []string {
	ids := slices.Sorted(slices.Values(slices.Concat(listed, slices.Collect(maps.Values(list.Clients)))))
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == rediskv.AllClients })
}

// keepGrants makes the list of all grants.
func (s *Store) keepGrants(ctx context.Context, k rediskv.Space) (tollgate.GrantList, error) {
	return rediskv.Retried(func() (tollgate.GrantList, error) {
		list, err := s.grantList(ctx, k)
		if err != nil || list.Revision > 0 {
			return list, err
		}
		c := s.db.NewCommit(rediskv.Caller{Organization: k.Org}, nil)
		listGrants(c, &list)
		if _, err = c.Run(ctx); err == nil {
			list.Revision++
		}
		return list, err
	})
}

// keepClients makes the set of all clients; listed are those that it has.
func (s *Store) keepClients(ctx context.Context, k rediskv.Space, listed []string) ([]string, error) {
	ids, err := s.search(ctx, k, tollgate.PrefixClient)
	if err != nil {
		return nil, err
	}
	ids = slices.Sorted(slices.Values(slices.Concat(ids, listed, []string{rediskv.AllClients})))
	ids = slices.Compact(ids)
	return ids, s.db.Timed(ctx, "keep_clients", func(ctx context.Context) error {
		return s.db.Redis.SAdd(ctx, k.Clients(), rediskv.Anys(ids)...).Err()
	})
}

// AccessIDs lists all grants, each with its client, and all clients.
func (s *Store) AccessIDs(ctx context.Context, c rediskv.Caller) (grants map[string]string, clients []string, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	list, listed, err := s.index(ctx, k)
	return list.Clients, clientsOf(list, listed), err
}

// EachGrant reads grants, in the order of their ids. One that cannot be read has its
// damage; one that is gone is left out.
func (s *Store) EachGrant(ctx context.Context, c rediskv.Caller, ids []string, each func(tollgate.Grant, error)) error {
	return eachDocument(ctx, s, c, "read_grants", ids, func(g *tollgate.Grant, id string) bool { return g.ID == id }, each)
}

// EachClient is EachGrant of clients.
func (s *Store) EachClient(ctx context.Context, c rediskv.Caller, ids []string, each func(tollgate.Client, error)) error {
	return eachDocument(ctx, s, c, "read_clients", ids, func(o *tollgate.Client, id string) bool { return o.ID == id }, each)
}

func eachDocument[T any](ctx context.Context, s *Store, c rediskv.Caller, operation string, ids []string, is func(*T, string) bool, each func(T, error)) error {
	k := s.db.Space(c.Organization)
	return rediskv.EachHash(ctx, s.db, c, operation, ids, k.Object, func(id string, f rediskv.Fields) {
		if f["json"] == "" && f["v"] == "" {
			return
		}
		var doc T
		err := f.Document(&doc)
		if err == nil && !is(&doc, id) {
			err = errors.New("it is another one")
		}
		each(doc, s.db.DamagedAt(ctx, k.Object(id), err))
	})
}

// AccessFacts reads all clients and grants of an organization and, of those that are
// named, its accounts: what a change of access is decided from.
func (s *Store) AccessFacts(ctx context.Context, c rediskv.Caller, accounts []string) (f *tollgate.ConfigFacts, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	f = tollgate.NewConfigFacts()
	list, listed, err := s.index(ctx, k)
	if err != nil {
		return nil, err
	}
	f.Grants, f.Clients = &list, listed
	clients := clientsOf(list, listed)
	lacks := tollgate.NewConfigFacts()
	for _, id := range slices.Concat(clients, slices.Collect(maps.Keys(list.Clients)), accounts, []string{k.Org}) {
		lacks.Objects[id] = tollgate.StoredObject{}
	}
	for _, id := range clients {
		f.Owners[id] = k.Org // it is stored here
	}
	return f, s.readConfig(ctx, k, lacks, f)
}

// CommitAccess writes a change of clients and grants. ErrConflict says that something
// has changed since it was read.
func (s *Store) CommitAccess(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, p *tollgate.Provisioning, ans rediskv.Answer) (rediskv.Result, error) {
	k := s.db.Space(c.Organization)
	var claimed []string
	if p.ClientsRead > 0 { // the client is new
		claimed = p.Clients
		if err := s.claimClients(ctx, k, claimed); err != nil {
			return rediskv.Result{}, err
		}
	}
	result, err := s.writeConfig(ctx, c, idem, p, ans)
	if refused, ok := errors.AsType[*tollgate.Error](err); result.Repeated || ok && refused.Code != tollgate.CodeStoreUnavailable {
		for _, id := range claimed { // nobody has heard of it
			err = cmp.Or(s.db.Timed(ctx, "give_back_client", func(ctx context.Context) error { return s.db.Redis.Del(ctx, rediskv.ClientKey(id)).Err() }), err)
		}
	}
	if err == nil && len(p.Raised) > endedTogether {
		err = s.finish(ctx, k)
	}
	return result, err
}
