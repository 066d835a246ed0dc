package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Account is a merchant account with what is needed to price and decide.
// Revision changes with every change of it; a commit compares it.
type Account struct {
	tollgate.MerchantAccount
	Limits   *tollgate.Perimeter
	Cutoffs  *tollgate.Timeline // all versions of its cutoff
	Closed   tollgate.Date      // its last closed sales day as it was read; nothing is added to closed days
	Shadows  []tollgate.Shadow  // what is priced beside them
	Rules    []tollgate.RuleRef // the rule set's, pinned; without a sum where there is no such rule
	Revision int64

	organization int64 // the organization's revision, read at the same moment
	active       bool
}

// Active reports whether payments can be made: account and organization.
func (a *Account) Active() bool { return a.active && a.Status == tollgate.StatusActive }

// Grant is an access grant; its revision is the gv of access tokens.
type Grant struct {
	tollgate.Grant
	Revision int64
}

// Organization is an organization with the ids of its accounts.
type Organization struct {
	tollgate.Organization
	AccountIDs []string
	Revision   int64
}

// Client is who signs assertions.
type Client struct {
	tollgate.Client
	Revision int64
}

func accountEntry(org, id string) entry { return entry{"account", org, id} }

func grantEntry(org, id string) entry { return entry{"grant", org, id} }

// AsOf says when a grant and an account, as they are cached, were last known to
// be current, and whether nothing speaks against their being so now. What a
// change or an unreachable Redis speaks against is current again when it has
// been read, or when Poll has found no change.
func (s *Store) AsOf(org, grant, account string) (at tollgate.Instant, current bool) {
	t, current := s.cache.asOf(grantEntry(org, grant), accountEntry(org, account))
	return tollgate.At(t), current
}

// Distrust has a grant and an account read before they are next used, at most
// once a second.
func (s *Store) Distrust(org, grant, account string) {
	s.cache.distrust(s.clock(), grantEntry(org, grant), accountEntry(org, account))
}

// Account returns a merchant account from the cache, filled by one read.
func (s *Store) Account(ctx context.Context, org, id string) (*Account, error) {
	k := s.space(org)
	return lookup(ctx, s, accountEntry(org, id), func(ctx context.Context) (*Account, error) {
		if !strings.HasPrefix(id, tollgate.PrefixMerchantAccount) {
			return nil, tollgate.NotFound()
		}
		found, err := s.hashes(ctx, "read_account", k.object(id), k.organization(), k.shadowing())
		for i, key := range []string{k.object(id), k.organization()} {
			if err == nil {
				err = s.damagedAt(ctx, key, counters(found[i]))
			}
		}
		if err != nil {
			return nil, err
		}
		a := &Account{Revision: found[0].int("v"), organization: found[1].int("v")}
		var doc tollgate.PerimeterDocument
		var o tollgate.Organization
		if err := cmp.Or(found[0].document(&a.MerchantAccount, found[0]["limits"], &doc), found[1].document(&o)); err != nil {
			return nil, s.damagedAt(ctx, k.object(id), err)
		}
		a.active = o.Status == tollgate.StatusActive
		if a.Cutoffs, a.Closed, err = cutoffsOf(found[0], a.Cutoff); err != nil {
			return nil, s.damagedAt(ctx, k.object(id), err)
		}
		// What is only compared keeps nothing from being paid.
		a.Shadows, err = shadowsOf(found[2]["list"], &a.MerchantAccount)
		_ = s.damagedAt(ctx, k.shadowing(), cmp.Or(err, counters(found[2])))
		if a.Rules, err = s.resolve(ctx, k, a.RuleSet.Rules); err != nil {
			return nil, err
		}
		a.Limits, err = doc.Compile()
		return a, s.damagedAt(ctx, k.object(id), err)
	})
}

// Grant returns an access grant from the cache.
func (s *Store) Grant(ctx context.Context, org, id string) (*Grant, error) {
	k := s.space(org)
	return lookup(ctx, s, grantEntry(org, id), func(ctx context.Context) (*Grant, error) {
		if !strings.HasPrefix(id, tollgate.PrefixGrant) {
			return nil, tollgate.NotFound()
		}
		found, err := s.readHashes(ctx, "read_grant", k.object(id))
		if err != nil {
			return nil, err
		}
		g := &Grant{Revision: found[0].int("v")}
		return g, s.damagedAt(ctx, k.object(id), found[0].document(&g.Grant))
	})
}

// Organization returns an organization from the cache.
func (s *Store) Organization(ctx context.Context, org string) (*Organization, error) {
	k := s.space(org)
	return lookup(ctx, s, entry{"organization", org, ""}, func(ctx context.Context) (*Organization, error) {
		found, err := s.readHashes(ctx, "read_organization", k.organization())
		if err != nil {
			return nil, err
		}
		o := &Organization{Revision: found[0].int("v"), AccountIDs: strings.Fields(found[0]["accounts"])}
		return o, s.damagedAt(ctx, k.organization(), found[0].document(&o.Organization))
	})
}

// Client returns a client by its id, from the cache.
func (s *Store) Client(ctx context.Context, id string) (*Client, error) {
	org, err := lookup(ctx, s, entry{"directory", "", id}, func(ctx context.Context) (org string, err error) {
		err = s.timed(ctx, "client_directory", func(ctx context.Context) error {
			org, err = s.client.Get(ctx, clientKey(id)).Result()
			if errors.Is(err, redis.Nil) {
				return tollgate.NotFound()
			}
			return err
		})
		return org, err
	})
	if err != nil {
		return nil, err
	}
	k := s.space(org)
	return lookup(ctx, s, entry{"client", org, id}, func(ctx context.Context) (*Client, error) {
		found, err := s.readHashes(ctx, "read_client", k.object(id))
		if err != nil {
			return nil, err
		}
		c := &Client{Revision: found[0].int("v")}
		return c, s.damagedAt(ctx, k.object(id), found[0].document(&c.Client))
	})
}

// Refresh marks what is cached of an organization as changed.
func (s *Store) Refresh(org string) { s.cache.forget(org) }

// Watch keeps the cache current by push until ctx ends. After a lost
// connection everything is read again: a change may have been missed.
func (s *Store) Watch(ctx context.Context) {
	sub := s.client.Subscribe(ctx, configChannel, eventsChannel)
	defer sub.Close()
	messages := sub.ChannelWithSubscriptions() // pings, and subscribes again after a lost connection
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-messages:
			switch m := message.(type) {
			case *redis.Message:
				if m.Channel == eventsChannel {
					s.tails.tell(m.Payload)
					continue
				}
				s.cache.forget(m.Payload)
			case *redis.Subscription:
				s.cache.forgetAll()
				s.tails.tellAll()
			}
			select {
			case s.changed <- struct{}{}:
			default: // nobody has looked since the last one
			}
		}
	}
}

type readResourceKeys struct{ Grant, Resource, Sequences, Audit, Mark string }

type readResourceArgs struct {
	GrantVersion string
	auditArgs
}

var scriptReadResource = newScript[readResourceKeys, readResourceArgs](lua, "read_resource")

// ReadResource reads what the four account endpoints show, compares the
// caller's grant and records the read, in one step.
func (s *Store) ReadResource(ctx context.Context, c Caller, kind, id string) (doc []byte, revision int64, err error) {
	prefix, known := map[string]string{
		"organization": tollgate.PrefixOrganization, "legal_entity": tollgate.PrefixLegalEntity,
		"merchant_account": tollgate.PrefixMerchantAccount, "grant": tollgate.PrefixGrant,
	}[kind]
	if !known || !strings.HasPrefix(id, prefix) || (kind == "organization" && id != c.Organization) {
		return nil, 0, tollgate.NotFound()
	}
	k := s.space(c.Organization)
	key := k.object(id)
	if kind == "organization" {
		key = k.organization()
	}
	grant, version := c.grant(k)
	entry, err := s.entry(c, kind+".read", "succeeded", "", kind, id)
	if err != nil {
		return nil, 0, err
	}
	_, rest, err := s.run(ctx, scriptReadResource.with(
		readResourceKeys{Grant: grant, Resource: key, Sequences: k.sequences(), Audit: k.audit(), Mark: k.mark(s.Mint(""))},
		readResourceArgs{version, entry},
	))
	if err != nil {
		return nil, 0, err
	}
	text, _ := rest[0].(string)
	if revision, err = strconv.ParseInt(text, 10, 64); err != nil || revision < 1 || strconv.FormatInt(revision, 10) != text {
		return nil, 0, s.damaged(ctx, k, kind, id, fmt.Errorf("%s %s: revision %q", kind, id, text))
	}
	f := fieldsIn(rest[1:], "json", envelopeField)
	if kind != "grant" {
		return []byte(f["json"]), revision, s.damaged(ctx, k, kind, id, sameObject(f, kind, id))
	}
	var g tollgate.Grant // its status depends on the moment
	if err := f.document(&g); err != nil || g.ID != id {
		return nil, 0, s.damaged(ctx, k, kind, id, cmp.Or(err, errors.New("another object's")))
	}
	g.Status = g.At(s.Now())
	doc, err = json.Marshal(g)
	return doc, revision, err
}
