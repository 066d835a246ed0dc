package handlers

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/access"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
)

// listClients lists the clients that the grant reaches, by id.
func (s *Server) listClients(c *call) (*answer, error) {
	var status string
	p, err := readPage[string](s, c, "asc", func(q *input.Query) {
		status = q.Choice("status", "", tollgate.StatusActive, tollgate.ClientDisabledStatus)
	})
	if err != nil {
		return nil, err
	}
	grants, clients, err := s.store.AccessIDs(c.ctx, c.caller(http.StatusOK))
	if err != nil {
		return nil, err
	}
	reaches, err := s.reachedClients(c, grants, clients)
	if err != nil {
		return nil, err
	}
	return accessPage(s, c, p, clients, "client.list", func(ids []string, add func(string, tollgate.ClientAnswer)) error {
		return s.store.EachClient(c.ctx, c.caller(http.StatusOK), ids, func(o tollgate.Client, damage error) {
			a, err := access.Answer(&o)
			switch d := tollgate.DamageOf(cmp.Or(damage, err)); {
			case d != nil:
				add(d.ID, tollgate.ClientAnswer{Object: d.Object, ID: d.ID, Damaged: true})
			case reaches(o.ID) && (status == "" || o.Status == status):
				add(o.ID, a)
			}
		})
	})
}

// reachedClients says which clients the grant reaches: those all of whose grants that
// are not revoked are of accounts that it covers.
func (s *Server) reachedClients(c *call, grants map[string]string, clients []string) (reaches func(string) bool, err error) {
	beyond := map[string]bool{}
	if len(c.grant.MerchantAccountIDs) > 0 {
		var ids []string
		for id, client := range grants {
			if slices.Contains(clients, client) {
				ids = append(ids, id)
			}
		}
		err = s.store.EachGrant(c.ctx, c.caller(http.StatusOK), ids, func(g tollgate.Grant, damage error) {
			if d := tollgate.DamageOf(damage); d != nil {
				beyond[grants[d.ID]] = true
			} else if g.Status == tollgate.StatusActive && !c.reaches(g.MerchantAccountIDs) {
				beyond[g.ClientID] = true
			}
		})
	}
	return func(id string) bool { return !beyond[id] }, err
}

func (s *Server) getClient(c *call) (*answer, error) {
	if len(c.grant.MerchantAccountIDs) > 0 { // before it is read, which is recorded
		grants, _, err := s.store.AccessIDs(c.ctx, c.caller(http.StatusOK))
		if err != nil {
			return nil, err
		}
		if reaches, err := s.reachedClients(c, grants, []string{c.pathID()}); err != nil || !reaches(c.pathID()) {
			return nil, orForbidden(err, "The grant does not cover all merchant accounts of this client's grants.")
		}
	}
	a, err := s.getResource(c, "client")
	if err != nil {
		return nil, err
	}
	var o tollgate.Client
	if err := json.Unmarshal(a.body, &o); err != nil {
		return nil, err
	}
	shown, err := access.Answer(&o)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(shown, json.Deterministic(true))
	a.body = body
	return a, err
}

func orForbidden(err error, message string) error {
	if err == nil {
		err = problem.New(tollgate.CodeMerchantAccountForbidden, message)
	}
	return err
}

func (s *Server) createClient(c *call, r access.ClientRequest) (*answer, error) {
	o := tollgate.Client{ID: s.store.NewID(tollgate.PrefixClient), Name: r.Name, Status: tollgate.StatusActive, DPoPBound: r.DPoPBound}
	for _, key := range r.Keys {
		o.Keys = append(o.Keys, string(key))
	}
	return s.changeClients(c, "clients.create", r, http.StatusCreated, "/v1/clients/"+o.ID, o.ID, func(a *tollgate.Access) (*tollgate.Provisioning, error) {
		return a.CreateClient(o)
	})
}

func (s *Server) updateClient(c *call, r access.ClientChange) (*answer, error) {
	return s.changeClient(c, "clients.update", nil, http.StatusOK, "", tollgate.ClientUpdated, "client.update", r.Make)
}

func (s *Server) addKey(c *call, r access.NewKey) (*answer, error) {
	return s.changeClient(c, "clients.keys", r, http.StatusCreated, r.ID, tollgate.KeyRotated, "key.add", r.Add)
}

func (s *Server) removeKey(c *call) (*answer, error) {
	kid := c.params.ByName("kid")
	return s.changeClient(c, "clients.keys.remove", nil, http.StatusOK, kid, tollgate.KeyRevoked, "key.remove", func(o *tollgate.Client) error { return access.Remove(o, kid) })
}

// changeClient changes the client that the path names.
func (s *Server) changeClient(c *call, operation string, request any, status int, kid string, t tollgate.EventType, entry string, change func(*tollgate.Client) error) (*answer, error) {
	return s.changeClients(c, operation, request, status, "", c.pathID(), func(a *tollgate.Access) (*tollgate.Provisioning, error) {
		return a.ChangeClient(c.pathID(), kid, t, entry, change)
	})
}

func (s *Server) changeClients(c *call, operation string, request any, status int, location, id string, decide func(*tollgate.Access) (*tollgate.Provisioning, error)) (*answer, error) {
	return s.changeAccess(c, operation, request, nil, decide, func(a *tollgate.Access, p *tollgate.Provisioning) (rediskv.Answer, error) {
		var o tollgate.Client
		if err := json.Unmarshal(asItBecomes(a, p, id), &o); err != nil {
			return rediskv.Answer{}, err
		}
		shown, err := access.Answer(&o)
		if err != nil {
			return rediskv.Answer{}, err
		}
		ans, err := reply(status, location, shown, nil)
		ans.Reach = []string{rediskv.ReachNone}
		return ans, err
	})
}
