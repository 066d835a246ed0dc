package tollgate

import (
	"cmp"
	"maps"
	"slices"
)

// Ending is a change that ends tokens: those of every grant of an organization
// or of a client. A token names its grant's revision, and a raised one ends it.
type Ending struct {
	Kind, ID string   // organization or client
	GrantIDs []string // of the client, as it names them
}

// Of finds the grants whose tokens end. holders are all of the organization, each
// with its client.
func (e Ending) Of(holders map[string]string) map[string]bool {
	ids := map[string]bool{}
	for _, id := range e.GrantIDs {
		ids[id] = true
	}
	for id, holder := range holders {
		if e.Kind == "organization" || holder == e.ID {
			ids[id] = true
		}
	}
	return ids
}

// completeGrants adds what the file leaves out of stored grants: one that names no
// client is as it is stored, but for its status.
func (p *provisioner) completeGrants() {
	var grants []Grant
	for _, g := range p.want.Grants {
		if g.ClientID == "" {
			p.refer("grant", g.ID)
			old, found := stored[Grant](p, "grant", g.ID)
			if found.Revision == 0 {
				continue
			}
			old.Status = g.Status
			g = old
		}
		grants = append(grants, g)
	}
	for _, c := range p.want.Clients { // its grants have its rate limits
		old, _ := stored[Client](p, "client", c.ID)
		for _, id := range old.GrantIDs {
			if p.rateLimits(c.ID) == old.RateLimits {
				break
			}
			g, found := stored[Grant](p, "grant", id)
			named := slices.ContainsFunc(grants, func(g Grant) bool { return g.ID == id })
			if found.Revision > 0 && !named && g.ClientID == c.ID {
				grants = append(grants, g)
			}
		}
	}
	p.want.Grants = grants
}

// rateLimits are those of a client, once the file's is written.
func (p *provisioner) rateLimits(client string) string {
	for _, c := range p.want.Clients {
		if c.ID == client && (c.Name != "" || len(c.Keys) > 0) {
			return c.RateLimits
		}
	}
	old, _ := stored[Client](p, "client", client)
	return old.RateLimits
}

// clients are the file's, and those stored ones that it gives a grant.
func (p *provisioner) clients() {
	done := map[string]bool{}
	for _, c := range p.want.Clients {
		done[c.ID] = true
		p.Clients = append(p.Clients, c.ID)
		p.client(c)
	}
	for _, g := range p.want.Grants {
		if done[g.ClientID] {
			continue
		}
		done[g.ClientID] = true
		p.refer("client", g.ClientID)
		c, _ := stored[Client](p, "client", g.ClientID)
		c.ID = g.ClientID
		p.client(c)
	}
}

// client keeps of a stored client its name and keys where the file gives neither,
// and its grants beside those that the file adds. Another status, a removed key and
// the need to bind tokens to a key end those that it has.
func (p *provisioner) client(c Client) {
	c.OrganizationID = p.Organization
	if owner := look(p.facts.Owners, p.lacks.Owners, c.ID); owner != "" && owner != p.Organization {
		p.refuse("client %s belongs to another organization", c.ID)
	}
	old, found := stored[Client](p, "client", c.ID)
	if c.Name == "" && len(c.Keys) == 0 {
		p.refer("client", c.ID)
		c.Name, c.Keys, c.DPoPBound = old.Name, old.Keys, old.DPoPBound
	}
	if c.CreatedAt = old.CreatedAt; found.Revision == 0 {
		c.CreatedAt = p.origin.At
	}
	c.GrantIDs, c.RateLimits = grantsOf(c, old, p.want.Grants), p.rateLimits(c.ID)
	removed := func(key string) bool { return !slices.Contains(c.Keys, key) }
	if found.Revision > 0 && (c.Status != old.Status || c.DPoPBound && !old.DPoPBound || slices.ContainsFunc(old.Keys, removed)) {
		p.Ending = append(p.Ending, Ending{Kind: "client", ID: c.ID, GrantIDs: slices.Concat(old.GrantIDs, c.GrantIDs)})
	}
	p.object("client", c.ID, found, &c, 0, nil)
}

// grantsOf are a client's grants once the file's are written: those that it has,
// without those that become another's, and then the new ones.
func grantsOf(c, old Client, grants []Grant) (ids []string) {
	holders, added := map[string]string{}, []string(nil)
	for _, g := range grants {
		if holders[g.ID] = g.ClientID; g.ClientID == c.ID {
			added = append(added, g.ID)
		}
	}
	for _, id := range slices.Concat(old.GrantIDs, c.GrantIDs, added) {
		if holder, named := holders[id]; (!named || holder == c.ID) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (p *provisioner) grant(g Grant) {
	g.Object, g.OrganizationID, g.ClientRateLimits = "grant", p.Organization, p.rateLimits(g.ClientID)
	p.within = "grant " + g.ID
	old, found := stored[Grant](p, "grant", g.ID)
	for _, id := range g.MerchantAccountIDs {
		if !slices.Contains(old.MerchantAccountIDs, id) && !slices.ContainsFunc(p.want.MerchantAccounts, func(a MerchantAccount) bool { return a.ID == id }) {
			p.refer("merchant account", id)
		}
	}
	p.within = ""
	var events []EventType // a change of scopes has no type of its own
	g.RevokedAt = old.RevokedAt
	switch {
	case g.Status == GrantRevokedStatus && old.Status != GrantRevokedStatus:
		g.RevokedAt, events = p.origin.At, []EventType{GrantRevoked}
	case g.Status != GrantRevokedStatus && old.Status == GrantRevokedStatus:
		p.refuse("grant %s is revoked and stays so; make a new one", g.ID)
	}
	if found.Revision == 0 {
		events = []EventType{GrantCreated}
	}
	if old.ClientID != g.ClientID {
		p.holders[g.ID] = g.ClientID
	}
	g.CreatedAt = cmp.Or(old.CreatedAt, p.origin.At)
	if p.object("grant", g.ID, found, &g, 0, nil, events...) && found.Revision > 0 {
		p.Changes[len(p.Changes)-1].Ends = 1 // its own revision is what tokens name
	}
}

// endTokens finds the grants whose tokens end, and adds the new ones to the list
// of all, so that nobody else adds one meanwhile.
func (p *provisioner) endTokens() {
	if len(p.Ending) == 0 && len(p.holders) == 0 {
		return
	}
	var list GrantList
	switch {
	case p.facts.Objects[p.Organization].Revision == 0: // it has no grants yet
	case p.facts.Grants == nil:
		p.lacks.Grants = &list
		return
	default:
		list = *p.facts.Grants
	}
	p.Grants = &GrantList{Revision: list.Revision, Clients: p.holders}
	if list.Revision == 0 { // all that were searched are added
		p.Grants.Clients = maps.Collect(maps.All(list.Clients))
		maps.Copy(p.Grants.Clients, p.holders)
	}
	raised := map[string]bool{}
	for _, e := range p.Ending {
		ids := e.Of(list.Clients)
		maps.DeleteFunc(ids, func(id string, _ bool) bool { return p.holders[id] != "" && list.Clients[id] == "" }) // new ones have no tokens
		at := slices.IndexFunc(p.Changes, func(c ConfigChange) bool { return c.Kind == e.Kind && c.ID == e.ID })
		p.Changes[at].Ends = len(ids)
		maps.Copy(raised, ids)
	}
	for _, object := range p.Objects { // its own change raises it
		delete(raised, object.ID)
	}
	p.Raised = slices.Sorted(maps.Keys(raised))
}
