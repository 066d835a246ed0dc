package tollgate

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What an organization may have of clients and grants. Revoked grants count: they
// are kept.
const (
	MaxClients    = 200
	MaxGrants     = 2000
	MaxClientKeys = 10 // of one client
)

const (
	// GrantRevokedStatus is that of a grant that has been taken back for good.
	GrantRevokedStatus = "revoked"
	// ClientDisabledStatus is that of a client that gets no tokens.
	ClientDisabledStatus = "disabled"
	// administers is the scope that manages clients and grants.
	administers = "access:write"
)

// ClientAnswer is a client as the service answers it.
type ClientAnswer struct {
	Object         string           `json:"object"` // "client"
	ID             string           `json:"id"`
	CreatedAt      Instant          `json:"created_at"` // null of one that an earlier release made
	OrganizationID string           `json:"organization_id"`
	Name           string           `json:"name"`
	Status         string           `json:"status"`
	Keys           []jsontext.Value `json:"keys"` // public JWKs with their kid and alg
	GrantIDs       []string         `json:"grant_ids"`
	DPoPBound      bool             `json:"dpop_bound_access_tokens"` // RFC 9449 §5.2

	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
}

// Access is what a caller does to the clients and grants of its organization. Nobody
// gets more by it than the caller's own grant allows, not even by a key: its holder
// can use all of the client's grants. And it takes nothing away from who may do more.
type Access struct {
	NewID  NewIDFunc
	Origin Origin
	By     Grant        // the caller's
	Facts  *ConfigFacts // with all clients and grants, and the accounts that a request names
}

// CreateClient adds a client, which has no grants yet.
func (a *Access) CreateClient(c Client) (*Provisioning, error) {
	if len(a.Facts.Clients) > MaxClients { // one of them stands for all
		return nil, quotaExceeded("clients", "An organization has at most %d clients.", MaxClients)
	}
	a.Facts.Objects[c.ID], a.Facts.Owners[c.ID] = StoredObject{}, ""
	p, err := a.provision(Config{Clients: []Client{c}}, "client.create", "client", c.ID)
	if err != nil {
		return nil, err
	}
	p.ClientsRead = len(a.Facts.Clients)
	return p, a.tell(p, ClientCreated, c.ID, "")
}

// ChangeClient gives a client other settings or keys; kid is the key that is
// added or removed, if that is the change. Tokens end as they do when an operator
// provisions the same.
func (a *Access) ChangeClient(id, kid string, t EventType, entry string, change func(*Client) error) (*Provisioning, error) {
	var was Client
	if err := a.read(PrefixClient, id, &was); err != nil {
		return nil, err
	}
	c := was
	c.Keys = slices.Clone(was.Keys)
	if err := change(&c); err != nil {
		return nil, err
	}
	if len(c.Keys) > MaxClientKeys && len(c.Keys) > len(was.Keys) {
		return nil, quotaExceeded("keys", "A client has at most %d keys; remove one.", MaxClientKeys)
	}
	grants, err := a.within(&was)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Status == was.Status:
	case c.Status == StatusActive:
		t, entry = ClientEnabled, "client.enable"
	default:
		t, entry = ClientDisabled, "client.disable"
	}
	p, err := a.provision(Config{Clients: []Client{c}}, entry, "client", id)
	if err != nil || len(p.Changes) == 0 {
		return p, err
	}
	if c.Status != StatusActive || len(c.Keys) == 0 {
		err = a.keepAdministrator(p, func(g *Grant) bool { return g.ClientID == id })
	}
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		p.Compared[g] = a.Facts.Objects[g].Revision
	}
	if p.Grants == nil { // and it has been given none since
		p.Grants = &GrantList{Revision: a.Facts.Grants.Revision}
	}
	return p, a.tell(p, t, id, kid)
}

// CreateGrant gives a client a grant.
func (a *Access) CreateGrant(g Grant) (*Provisioning, error) {
	if !a.has(PrefixClient, g.ClientID) {
		return nil, &Error{Code: CodeNotFound, Param: "client_id", Message: "There is no such client."}
	}
	switch wider := a.wider(&g); {
	case wider != nil:
		return nil, wider
	case g.NotBefore != 0 && g.NotBefore < a.By.NotBefore:
		return nil, beyond("not_before", "Your own grant begins at %s. Name no earlier moment.", a.By.NotBefore)
	case g.ExpiresAt != 0 && g.ExpiresAt <= max(g.NotBefore, a.Origin.At):
		return nil, Invalid("expires_at", "expires_at is later than now and than not_before.")
	case len(a.Facts.Grants.Clients) >= MaxGrants:
		return nil, quotaExceeded("grants", "An organization has at most %d grants, revoked ones included.", MaxGrants)
	}
	for _, id := range g.MerchantAccountIDs {
		if !a.has(PrefixMerchantAccount, id) {
			return nil, &Error{Code: CodeNotFound, Param: "merchant_account_ids", Message: "There is no merchant account " + id + "."}
		}
	}
	if id := g.DefaultMerchantAccountID; id != nil && (!a.has(PrefixMerchantAccount, *id) || !g.Covers(*id)) {
		return nil, Invalid("default_merchant_account_id", "default_merchant_account_id is one of the accounts that the grant covers.")
	}
	a.Facts.Objects[g.ID] = StoredObject{}
	return a.provision(Config{Grants: []Grant{g}}, "grant.create", "grant", g.ID)
}

// RevokeGrant takes a grant back for good. One that is revoked stays as it is.
func (a *Access) RevokeGrant(id string) (*Provisioning, error) {
	var g Grant
	if err := a.read(PrefixGrant, id, &g); err != nil {
		return nil, err
	}
	if wider := a.wider(&g); wider != nil {
		return nil, wider
	}
	p, err := a.provision(Config{Grants: []Grant{{ID: id, Status: GrantRevokedStatus}}}, "grant.revoke", "grant", id)
	if err == nil && len(p.Changes) > 0 {
		err = a.keepAdministrator(p, func(other *Grant) bool { return other.ID == id })
	}
	return p, err
}

// has reports whether there is an object of a kind.
func (a *Access) has(prefix, id string) bool {
	return strings.HasPrefix(id, prefix) && a.Facts.Objects[id].Revision > 0
}

// read is a client or a grant as it was read.
func (a *Access) read(prefix, id string, doc any) error {
	if !a.has(prefix, id) {
		return NotFound()
	}
	return json.Unmarshal(a.Facts.Objects[id].Document, doc)
}

// provision is the change as provisioning makes it, with one entry of its own.
func (a *Access) provision(want Config, entry, target, id string) (*Provisioning, error) {
	want.Organization.ID = a.Origin.Organization
	p, err := Provision(a.NewID, a.Origin, a.Facts, want)
	if err == nil {
		p.Audit = []AuditEntry{{Type: entry, Outcome: "succeeded", Target: AuditTarget{target, id}}}
	}
	return p, err
}

// tell adds the one event of a change of a client.
func (a *Access) tell(p *Provisioning, t EventType, id, kid string) error {
	at := slices.IndexFunc(p.Objects, func(o ConfigObject) bool { return o.ID == id })
	changed := slices.IndexFunc(p.Changes, func(c ConfigChange) bool { return c.ID == id })
	told := ResourceChange{Kind: "client", ID: id, Revision: p.Objects[at].Revision + 1, Changed: p.Changes[changed].Fields, KeyID: kid, Document: p.Objects[at].Document}
	e, err := told.event(a.NewID, a.Origin, t)
	p.Events = append(p.Events, e)
	return err
}

func beyond(param, format string, args ...any) *Error {
	e := Invalid(param, format, args...)
	e.Code = CodeScopeMissing
	return e
}

// wider says what a grant allows from now on that the caller's does not; nil: nothing.
func (a *Access) wider(g *Grant) error {
	by := &a.By
	for _, scope := range g.Scopes {
		if !slices.Contains(by.Scopes, scope) {
			return beyond("scopes", "Your own grant does not have the scope %s.", quoted(scope))
		}
	}
	outside := func(id string) bool { return !by.Covers(id) }
	switch {
	case len(by.MerchantAccountIDs) > 0 && len(g.MerchantAccountIDs) == 0:
		return beyond("merchant_account_ids", "Your own grant covers some merchant accounts, and this one all of them. Name accounts that yours covers.")
	case slices.ContainsFunc(g.MerchantAccountIDs, outside):
		return beyond("merchant_account_ids", "Your own grant does not cover all of these merchant accounts.")
	case by.ExpiresAt != 0 && (g.ExpiresAt == 0 || g.ExpiresAt > by.ExpiresAt):
		return beyond("expires_at", "Your own grant ends at %s, and this one later. Name that moment or an earlier one.", by.ExpiresAt)
	}
	return nil
}

// within refuses to change a client that may do more than the caller. It returns by
// which grants it was judged.
func (a *Access) within(c *Client) (judged []string, err error) {
	for _, id := range slices.Sorted(maps.Keys(Ending{Kind: "client", ID: c.ID, GrantIDs: c.GrantIDs}.Of(a.Facts.Grants.Clients))) {
		var g Grant
		if !a.has(PrefixGrant, id) {
			continue
		}
		if err := a.read(PrefixGrant, id, &g); err != nil {
			return nil, err
		}
		if g.Status != StatusActive || g.ExpiresAt != 0 && g.ExpiresAt <= a.Origin.At {
			continue // it never allows anything again
		}
		if err := a.wider(&g); err != nil {
			return nil, beyond("", "The client's grant %s allows more than your own, so you cannot change the client. Ask somebody whose grant covers it.", id)
		}
		judged = append(judged, id)
	}
	return judged, nil
}

// keepAdministrator refuses a change after which nobody can manage clients and grants
// any more. Who remains is compared when the change is committed: of two that go at
// once, one stays.
func (a *Access) keepAdministrator(p *Provisioning, lost func(*Grant) bool) error {
	loses := false
	for _, id := range slices.Sorted(maps.Keys(a.Facts.Grants.Clients)) {
		var g Grant
		var c Client
		if a.read(PrefixGrant, id, &g) != nil || a.read(PrefixClient, g.ClientID, &c) != nil || g.At(a.Origin.At) != StatusActive || !slices.Contains(g.Scopes, administers) ||
			c.Status != StatusActive || len(c.Keys) == 0 {
			continue
		}
		if !lost(&g) {
			p.Compared[id], p.Compared[c.ID] = a.Facts.Objects[id].Revision, a.Facts.Objects[c.ID].Revision
			for _, o := range p.Objects { // what is written is compared by itself
				delete(p.Compared, o.ID)
			}
			return nil
		}
		loses = true
	}
	if !loses {
		return nil
	}
	return &Error{
		Code:    CodeGrantStateInvalid,
		Message: "This would leave no active grant with access:write that a client with a key can use, and nobody could manage access any more. Give somebody else such a grant first.",
	}
}
