package rediskv

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Config is an organization's configuration as it should be. Objects that
// exist and are not named stay as they are, and what is named may refer to them.
// An organization without name and region, a client without name and keys and a
// grant without a client stay as they are but for their status.
// created_at, updated_at, a cutoff's version and an account's rules are filled
// in.
type Config struct {
	Organization     tollgate.Organization
	LegalEntities    []tollgate.LegalEntity
	MerchantAccounts []tollgate.MerchantAccount
	Clients          []tollgate.Client
	Grants           []tollgate.Grant
	Perimeters       []tollgate.PerimeterDocument
	RuleSets         []tollgate.RuleSet
	// Effective says by account from which sales day on a changed cutoff is
	// wanted; without it, and at the earliest, from the day after the open one.
	Effective   map[string]tollgate.Date
	RuleSigners []tollgate.RuleSigner
	Judge       RuleJudge // nil: every rule will do
}

// ConfigChange is one object that is created or changed.
type ConfigChange struct {
	Kind   string // organization, legal_entity, merchant_account, client, rule_signer, grant, perimeter or rule_set
	ID     string // with @version for perimeters and rule sets
	Action string // created or changed
	Fields []string
	From   tollgate.Date // the first sales day of a changed cutoff
	Ends   int           // how many grants there are whose tokens it ends
}

// ApplyConfig makes an organization's configuration so, in one script, and
// returns what changed; with dryRun it only says so. Every change of a
// resource is an event and an audit entry. An organization or client with
// another status, and a client without a key that it had, has no token left when
// it returns.
func (s *Store) ApplyConfig(ctx context.Context, want Config, dryRun bool) ([]ConfigChange, error) {
	k := s.space(want.Organization.ID)
	if !dryRun { // what an earlier run that died has left
		if err := s.finish(ctx, k); err != nil {
			return nil, err
		}
	}
	for range 10 {
		p := &plan{commit: s.commit(Caller{Organization: k.org}, nil), now: s.Now(), perimeters: map[string]string{}, ruleSets: map[string][]tollgate.Citation{}, effective: map[string]tollgate.Date{}, judge: want.Judge, read: map[string]fields{}, holders: map[string]string{}}
		if err := p.prepare(ctx, want); err != nil {
			return nil, err
		}
		if dryRun {
			return p.changes, nil
		}
		if err := s.notePerimeters(ctx, k, want.Perimeters); err != nil || len(p.changes) == 0 {
			return p.changes, err
		}
		err := p.write(ctx, want.Clients)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err == nil && len(p.left) > 0 {
			err = s.finish(ctx, k)
		}
		return p.changes, err
	}
	return nil, ErrConflict
}

// plan is the difference between what is and what should be.
type plan struct {
	*commit
	now tollgate.Instant

	changes    []ConfigChange
	read       map[string]fields // by key: hashes as they were read
	perimeters map[string]string // by id@version: the document's JSON
	ruleSets   map[string][]tollgate.Citation
	effective  map[string]tollgate.Date // by account: of a cutoff that changes
	judge      RuleJudge
	moved      []moved

	exists  bool              // the organization, before
	ending  []ending          // whose tokens end
	holders map[string]string // by grant: its client, where that is new
	left    []string          // of ending, when they are too many for one script
}

func (p *plan) prepare(ctx context.Context, want Config) error {
	for i := range want.Perimeters {
		if err := p.perimeter(ctx, want.Perimeters[i]); err != nil {
			return err
		}
	}
	if err := p.perimeterQuota(ctx); err != nil {
		return err
	}
	for i := range want.RuleSets {
		if err := p.ruleSet(ctx, want.RuleSets[i]); err != nil {
			return err
		}
	}
	if err := p.organization(ctx, want); err != nil {
		return err
	}
	for i := range want.LegalEntities {
		l := want.LegalEntities[i]
		l.Object, l.OrganizationID = "legal_entity", p.space.org
		if err := p.object(ctx, "legal_entity", l.ID, &l, &l.CreatedAt, &l.UpdatedAt, always(tollgate.LegalEntityUpdated), nil); err != nil {
			return err
		}
	}
	for i := range want.MerchantAccounts {
		if err := p.account(ctx, want, want.MerchantAccounts[i]); err != nil {
			return err
		}
	}
	if err := p.supersede(ctx); err != nil {
		return err
	}
	for i := range want.RuleSigners {
		r := want.RuleSigners[i]
		r.OrganizationID = p.space.org
		if err := p.object(ctx, "rule_signer", r.ID, &r, nil, nil, nil, nil); err != nil {
			return err
		}
	}
	var err error
	if want.Grants, err = p.completed(ctx, want.Grants); err != nil {
		return err
	}
	if err := p.clients(ctx, want); err != nil {
		return err
	}
	for _, g := range want.Grants {
		if err := p.grant(ctx, want, g); err != nil {
			return err
		}
	}
	return p.endTokens(ctx)
}

// write claims the clients' ids, which live outside the organization's slot,
// and then commits everything in one script. A claim without a client, left
// behind by a failure between the two, leads nowhere and can be claimed again
// by the same organization.
func (p *plan) write(ctx context.Context, clients []tollgate.Client) error {
	for _, c := range clients {
		if err := p.store.timed(ctx, "claim_client", func(ctx context.Context) error {
			return p.store.client.SetNX(ctx, clientKey(c.ID), p.space.org, 0).Err()
		}); err != nil {
			return err
		}
		if err := p.clientIsOurs(ctx, c.ID); err != nil {
			return err
		}
	}
	operation := p.store.Mint("")
	p.notify = true
	p.member(organizationsKey(p.space.partition), added, p.space.org)
	for _, id := range p.left {
		p.member(p.space.ending(), added, id+"/"+operation)
	}
	for id := range p.effective { // when they are looked at next is another time
		p.member(p.space.cutoffs, lookedAt, p.space.org+"/"+id)
	}
	for _, c := range p.changes {
		if err := p.audit(c.Kind+".provision", c.Action, c.Kind, c.ID); err != nil {
			return err
		}
	}
	_, err := p.runAs(ctx, operation)
	return err
}

// clientIsOurs refuses a client id that belongs to another organization.
func (p *plan) clientIsOurs(ctx context.Context, id string) error {
	return p.store.timed(ctx, "client_directory", func(ctx context.Context) error {
		org, err := p.store.client.Get(ctx, clientKey(id)).Result()
		if errors.Is(err, redis.Nil) || (err == nil && org == p.space.org) {
			return nil
		}
		if err != nil {
			return err
		}
		return &tollgate.Error{Code: tollgate.CodeParameterInvalid, Message: fmt.Sprintf("client %s belongs to another organization", id)}
	})
}
