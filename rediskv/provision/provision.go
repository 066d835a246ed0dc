package provision

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/rules"
)

// CommitConfig writes what provisioning has decided, in one script, and ends the
// tokens that it ends, and those that an earlier run that died has left: an
// organization or client with another status, and a client without a key that it
// had, has no token left when it returns. ErrConflict says that something has
// changed since it was read.
func (s *Store) CommitConfig(ctx context.Context, p *tollgate.Provisioning) error {
	k := s.db.Space(p.Organization)
	if err := s.accounts.NotePerimeters(ctx, k, p.Perimeters); err != nil {
		return err
	}
	if len(p.Changes) > 0 {
		if err := s.claimClients(ctx, k, p.Clients); err != nil {
			return err
		}
		if _, err := s.writeConfig(ctx, rediskv.Caller{Organization: k.Org}, nil, p, rediskv.Answer{}); err != nil {
			return err
		}
	}
	return s.finish(ctx, k)
}

// claimClients claims ids, which live outside the organization's slot, before
// anything is written. A claim without a client, left behind by a failure between
// the two, leads nowhere and can be claimed again by the same organization.
func (s *Store) claimClients(ctx context.Context, k rediskv.Space, ids []string) error {
	owners := map[string]string{}
	if len(ids) > 0 {
		if err := s.db.Timed(ctx, "claim_clients", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			for _, id := range ids {
				owners[id] = ""
				pipe.SetNX(ctx, rediskv.ClientKey(id), k.Org, 0)
			}
			_, err := pipe.Exec(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	err := s.readTexts(ctx, owners, owners, rediskv.ClientKey)
	for _, owner := range owners {
		if owner != k.Org && err == nil {
			err = rediskv.ErrConflict
		}
	}
	return err
}

func (s *Store) writeConfig(ctx context.Context, by rediskv.Caller, idem *rediskv.Idempotency, p *tollgate.Provisioning, ans rediskv.Answer) (rediskv.Result, error) {
	operation := s.db.NewID("")
	c := s.db.NewCommit(by, idem)
	k := c.Space
	c.Notify, c.Answer = true, ans
	for i := range p.Objects {
		f, err := objectFields(&p.Objects[i])
		if err != nil {
			return rediskv.Result{}, err
		}
		c.Hash(k.Configured(p.Objects[i].ID), rediskv.Revision(p.Objects[i].Revision), f)
	}
	listClients(c, p)
	for id, read := range p.Compared {
		c.Unchanged(k.Configured(id), rediskv.Revision(read))
	}
	for _, r := range p.RuleSets {
		rules.RuleSet(c, r)
	}
	if p.Quotas != nil {
		rules.Quotas(c, *p.Quotas)
	}
	if p.Grants != nil {
		listGrants(c, p.Grants)
	}
	for name, text := range p.Versions {
		c.VersionDocument(k.VersionNamed(name), text)
	}
	c.Member(rediskv.OrganizationsKey(k.Partition), rediskv.Added, k.Org)
	for _, changed := range p.Changes {
		if changed.From != tollgate.NoDate { // when the account is looked at next is another time
			c.Member(k.Cutoffs, rediskv.LookedAt, k.Org+"/"+changed.ID)
		}
	}
	if c.Raised = p.Raised; len(p.Raised) > endedTogether { // finish goes on from a note of them, in this run or the next
		c.Raised = nil
		for _, e := range p.Ending {
			c.Member(k.Ending(), rediskv.Added, e.ID+"/"+operation)
		}
	}
	c.Events = p.Events
	for _, e := range p.Audit {
		if err := c.Noted(e); err != nil {
			return rediskv.Result{}, err
		}
	}
	return c.RunAs(ctx, operation)
}

// objectFields are the fields of an object's hash.
func objectFields(o *tollgate.ConfigObject) (f rediskv.Pairs, err error) {
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Int("v", o.Revision+1)
	f.Set("json", string(o.Document))
	if o.Kind == "grant" { // no checksum covers its count
		f.Int(record.Copied("v"), o.Revision+1)
	}
	if o.Kind == "organization" {
		f.Set("accounts", strings.Join(o.AccountIDs, " "))
	}
	if o.Kind == "merchant_account" {
		f.Set("limits", o.Perimeter)
		f.Set("given", o.Given)
	}
	if len(o.Cutoffs) > 0 {
		text, err := json.Marshal(o.Cutoffs, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("merchant account %s: cutoffs: %w", o.ID, err)
		}
		f.Set("cutoffs", string(text))
	}
	return f, nil
}

// listClients adds to the set of all clients; it has all of a new organization.
func listClients(c *rediskv.Commit, p *tollgate.Provisioning) {
	if p.ClientsRead > 0 {
		c.Still(strconv.Itoa(p.ClientsRead), "SCARD", c.Space.Clients())
	}
	for _, id := range p.Clients {
		c.Member(c.Space.Clients(), rediskv.Added, id)
	}
	for i := range p.Objects {
		if o := &p.Objects[i]; o.Kind == "organization" && o.Revision == 0 {
			c.Member(c.Space.Clients(), rediskv.Added, rediskv.AllClients)
		}
	}
}

// listGrants adds to the list of all grants, and makes the change hold only while
// nobody else does.
func listGrants(c *rediskv.Commit, list *tollgate.GrantList) {
	h := rediskv.HashWrite{Key: c.Space.Grants(), Expected: rediskv.Revision(list.Revision)}
	if len(list.Clients) > 0 {
		h.Fields.Int("v", list.Revision+1)
	}
	for _, id := range slices.Sorted(maps.Keys(list.Clients)) {
		if len(h.Fields) >= 2000 { // Lua's stack is no longer
			c.Hashes = append(c.Hashes, h)
			h.Fields = nil
		}
		h.Fields.Set(id, list.Clients[id])
	}
	c.Hashes = append(c.Hashes, h)
}
