package rediskv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// CommitConfig writes what provisioning has decided, in one script, and ends the
// tokens that it ends, and those that an earlier run that died has left: an
// organization or client with another status, and a client without a key that it
// had, has no token left when it returns. ErrConflict says that something has
// changed since it was read.
func (s *Store) CommitConfig(ctx context.Context, p *tollgate.Provisioning) error {
	k := s.space(p.Organization)
	if err := s.notePerimeters(ctx, k, p.Perimeters); err != nil {
		return err
	}
	if len(p.Changes) > 0 {
		if err := s.claimClients(ctx, k, p.Clients); err != nil {
			return err
		}
		if err := s.writeConfig(ctx, k, p); err != nil {
			return err
		}
	}
	return s.finish(ctx, k)
}

// claimClients claims ids, which live outside the organization's slot, before
// anything is written. A claim without a client, left behind by a failure between
// the two, leads nowhere and can be claimed again by the same organization.
func (s *Store) claimClients(ctx context.Context, k space, ids []string) error {
	owners := map[string]string{}
	if len(ids) > 0 {
		if err := s.timed(ctx, "claim_clients", func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			for _, id := range ids {
				owners[id] = ""
				pipe.SetNX(ctx, clientKey(id), k.org, 0)
			}
			_, err := pipe.Exec(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	err := s.readTexts(ctx, owners, owners, clientKey)
	for _, owner := range owners {
		if owner != k.org && err == nil {
			err = ErrConflict
		}
	}
	return err
}

func (s *Store) writeConfig(ctx context.Context, k space, p *tollgate.Provisioning) error {
	operation := s.Mint("")
	c := s.commit(Caller{Organization: k.org}, nil)
	c.notify = true
	for i := range p.Objects {
		f, err := objectFields(&p.Objects[i])
		if err != nil {
			return err
		}
		c.hash(k.configured(p.Objects[i].ID), revision(p.Objects[i].Revision), f)
	}
	for id, read := range p.Compared {
		c.unchanged(k.configured(id), revision(read))
	}
	for _, r := range p.RuleSets {
		c.ruleSet(r)
	}
	if p.Quotas != nil {
		c.quotas(*p.Quotas)
	}
	if p.Grants != nil {
		c.listGrants(p.Grants)
	}
	for name, text := range p.Versions {
		c.version(k.versionNamed(name), text)
	}
	c.member(organizationsKey(k.partition), added, k.org)
	for _, changed := range p.Changes {
		if changed.From != tollgate.NoDate { // when the account is looked at next is another time
			c.member(k.cutoffs, lookedAt, k.org+"/"+changed.ID)
		}
	}
	if c.raised = p.Raised; len(p.Raised) > endedTogether { // finish goes on from a note of them, in this run or the next
		c.raised = nil
		for _, e := range p.Ending {
			c.member(k.ending(), added, e.ID+"/"+operation)
		}
	}
	c.events = p.Events
	for _, e := range p.Audit {
		if err := c.noted(e); err != nil {
			return err
		}
	}
	_, err := c.runAs(ctx, operation)
	return err
}

// objectFields are the fields of an object's hash.
func objectFields(o *tollgate.ConfigObject) (f pairs, err error) {
	f.set(envelopeField, envelope)
	f.int("v", o.Revision+1)
	f.set("json", string(o.Document))
	if o.Kind == "organization" {
		f.set("accounts", strings.Join(o.AccountIDs, " "))
	}
	if o.Kind == "merchant_account" {
		f.set("limits", o.Perimeter)
		f.set("given", o.Given)
	}
	if len(o.Cutoffs) > 0 {
		text, err := json.Marshal(o.Cutoffs, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("merchant account %s: cutoffs: %w", o.ID, err)
		}
		f.set("cutoffs", string(text))
	}
	return f, nil
}

// listGrants adds to the list of all grants, and makes the change hold only while
// nobody else does.
func (c *commit) listGrants(list *tollgate.GrantList) {
	h := hashWrite{key: c.space.grants(), expected: revision(list.Revision)}
	if len(list.Clients) > 0 {
		h.fields.int("v", list.Revision+1)
	}
	for _, id := range slices.Sorted(maps.Keys(list.Clients)) {
		if len(h.fields) >= 2000 { // Lua's stack is no longer
			c.hashes = append(c.hashes, h)
			h.fields = nil
		}
		h.fields.set(id, list.Clients[id])
	}
	c.hashes = append(c.hashes, h)
}
