package rediskv

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tollgate"
)

// Holds reports whether an organization has an object: a version of a perimeter
// or rule set by id@version, the organization itself by "".
func (s *Store) Holds(ctx context.Context, org, id string) (there bool, err error) {
	k := s.space(org)
	key := k.object(id)
	if id == "" {
		key = k.organization()
	} else if id, version, ok := strings.Cut(id, "@"); ok {
		key = k.object(id) + ":" + version
	}
	err = s.timed(ctx, "read_config", func(ctx context.Context) error {
		n, err := s.client.Exists(ctx, key).Result()
		there = n > 0
		return err
	})
	return there, err
}

// refer makes the plan hold only while an object that the file names and does
// not describe is as it was found.
func (p *plan) refer(ctx context.Context, kind, id string) (fields, error) {
	key := p.space.object(id)
	found, err := p.current(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &tollgate.Error{Code: tollgate.CodeParameterInvalid, Message: fmt.Sprintf("%q is not a %s of this organization", id, kind)}
	}
	if !slices.ContainsFunc(p.hashes, func(h hashWrite) bool { return h.key == key }) {
		p.unchanged(key, found["v"])
	}
	return found, nil
}

// client plans a client. A stored one keeps its name and keys where the file
// gives neither, and its grants beside those that the file adds. Another status
// and a removed key end its tokens.
func (p *plan) client(ctx context.Context, c tollgate.Client, grants []tollgate.Grant) error {
	c.OrganizationID = p.space.org
	if err := p.clientIsOurs(ctx, c.ID); err != nil {
		return err
	}
	found, err := p.current(ctx, p.space.object(c.ID))
	if err != nil {
		return err
	}
	var old tollgate.Client
	if len(found) > 0 {
		if err := decode(found["json"], &old); err != nil {
			return fmt.Errorf("client %s: %w", c.ID, err)
		}
	}
	if c.Name == "" && len(c.Keys) == 0 {
		if _, err := p.refer(ctx, "client", c.ID); err != nil {
			return err
		}
		c.Name, c.Keys = old.Name, old.Keys
	}
	c.GrantIDs = grantsOf(c, old, grants)
	removed := func(key string) bool { return !slices.Contains(c.Keys, key) }
	if len(found) > 0 && (c.Status != old.Status || slices.ContainsFunc(old.Keys, removed)) {
		p.ending = append(p.ending, ending{kind: "client", id: c.ID, grants: slices.Concat(old.GrantIDs, c.GrantIDs)})
	}
	return p.object(ctx, "client", c.ID, &c, nil, nil, nil, nil)
}

// grantsOf are a client's grants once the file's are written: those that it has,
// without those that become another's, and then the new ones.
func grantsOf(c, old tollgate.Client, grants []tollgate.Grant) []string {
	ids := slices.DeleteFunc(slices.Clone(old.GrantIDs), func(id string) bool {
		return slices.ContainsFunc(grants, func(g tollgate.Grant) bool { return g.ID == id && g.ClientID != c.ID })
	})
	add := func(id string) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, id := range c.GrantIDs {
		add(id)
	}
	for _, g := range grants {
		if g.ClientID == c.ID {
			add(g.ID)
		}
	}
	return ids
}

// clients plans the file's clients, and those stored ones that it gives a grant.
func (p *plan) clients(ctx context.Context, want Config) error {
	done := map[string]bool{}
	for _, c := range want.Clients {
		done[c.ID] = true
		if err := p.client(ctx, c, want.Grants); err != nil {
			return err
		}
	}
	for _, g := range want.Grants {
		if done[g.ClientID] {
			continue
		}
		done[g.ClientID] = true
		found, err := p.refer(ctx, "client", g.ClientID)
		if err != nil {
			return err
		}
		var c tollgate.Client
		if err := decode(found["json"], &c); err != nil {
			return fmt.Errorf("client %s: %w", g.ClientID, err)
		}
		if err := p.client(ctx, c, want.Grants); err != nil {
			return err
		}
	}
	return nil
}

// completed are the file's grants, with what it leaves out of stored ones: one
// that names no client is as it is stored, but for its status.
func (p *plan) completed(ctx context.Context, grants []tollgate.Grant) ([]tollgate.Grant, error) {
	grants = slices.Clone(grants)
	for i := range grants {
		if grants[i].ClientID != "" {
			continue
		}
		found, err := p.refer(ctx, "grant", grants[i].ID)
		if err != nil {
			return nil, err
		}
		var old tollgate.Grant
		if err := decode(found["json"], &old); err != nil {
			return nil, fmt.Errorf("grant %s: %w", grants[i].ID, err)
		}
		old.Status, old.RevokedAt = grants[i].Status, 0
		grants[i] = old
	}
	return grants, nil
}

func (p *plan) grant(ctx context.Context, want Config, g tollgate.Grant) error {
	g.Object, g.OrganizationID = "grant", p.space.org
	for _, id := range g.MerchantAccountIDs {
		if slices.ContainsFunc(want.MerchantAccounts, func(a tollgate.MerchantAccount) bool { return a.ID == id }) {
			continue
		}
		if _, err := p.refer(ctx, "merchant account", id); err != nil {
			return fmt.Errorf("grant %s: %w", g.ID, err)
		}
	}
	found, err := p.current(ctx, p.space.object(g.ID))
	if err != nil {
		return err
	}
	events := always(tollgate.GrantCreated)
	var old tollgate.Grant
	if len(found) > 0 {
		if err := decode(found["json"], &old); err != nil {
			return fmt.Errorf("grant %s: %w", g.ID, err)
		}
		events = nil // a change of scopes has no event type of its own
		g.RevokedAt = old.RevokedAt
		switch {
		case g.Status == "revoked" && old.Status != "revoked":
			events, g.RevokedAt = always(tollgate.GrantRevoked), p.now
		case g.Status != "revoked" && old.Status == "revoked":
			return &tollgate.Error{Code: tollgate.CodeParameterInvalid, Message: fmt.Sprintf("grant %s is revoked and stays so; make a new one", g.ID)}
		}
	} else if g.Status == "revoked" {
		g.RevokedAt = p.now
	}
	if old.ClientID != g.ClientID {
		p.holders[g.ID] = g.ClientID
	}
	planned := len(p.changes)
	err = p.object(ctx, "grant", g.ID, &g, &g.CreatedAt, nil, events, nil)
	if err == nil && len(found) > 0 && len(p.changes) > planned {
		p.changes[planned].Ends = 1 // its own revision is what tokens name
	}
	return err
}
