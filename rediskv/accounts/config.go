package accounts

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
	"tollgate/rediskv"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/record"
	"tollgate/rediskv/rules"
	"tollgate/rediskv/script"
)

// Account is a merchant account with what is needed to price and decide.
// Revision changes with every change of it; a commit compares it.
type Account struct {
	tollgate.MerchantAccount
	Perimeter *tollgate.Perimeter
	Cutoffs   *tollgate.Timeline // all versions of its cutoff
	Closed    tollgate.Date      // its last closed sales day as it was read; nothing is added to closed days
	Shadows   []tollgate.Shadow  // what is priced beside them
	Rules     []tollgate.RuleRef // the rule set's, pinned; without a sum where there is no such rule
	Revision  int64

	Organization int64 // the organization's revision, read at the same moment
	active       bool
}

// Active reports whether payments can be made: account and organization.
func (a *Account) Active() bool { return a.active && a.Status == tollgate.StatusActive }

// Grant is an access grant; its revision is the gv of access tokens.
type Grant struct {
	tollgate.Grant
	Revision int64
	Revoked  map[string]bool // ids of its tokens that were revoked one by one
	Own      gcra.Limits     // that are set for it alone
	Limits   gcra.Limits     // these, and those of its client
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

func accountEntry(org, id string) rediskv.Entry { return rediskv.EntryOf("account", org, id) }

func grantEntry(org, id string) rediskv.Entry { return rediskv.EntryOf("grant", org, id) }

// AsOf says when a grant and an account, as they are cached, were last known to
// be current, and whether nothing speaks against their being so now. What a
// change or an unreachable Redis speaks against is current again when it has
// been read, or when Poll has found no change.
func (s *Store) AsOf(org, grant, account string) (at tollgate.Instant, current bool) {
	t, current := s.db.Cache.AsOf(grantEntry(org, grant), accountEntry(org, account))
	return tollgate.At(t), current
}

// Distrust has a grant and an account read before they are next used, at most
// once a second.
func (s *Store) Distrust(org, grant, account string) {
	s.db.Cache.Distrust(s.db.Clock(), grantEntry(org, grant), accountEntry(org, account))
}

// Account returns a merchant account from the cache, filled by one read.
func (s *Store) Account(ctx context.Context, org, id string) (*Account, error) {
	if s.isFirst(ctx, org, accountEntry(org, id)) {
		if a, err := s.near.Account(ctx, org, id); err == nil {
			return a, nil
		}
	}
	k := s.db.Space(org)
	return rediskv.Lookup(ctx, s.db, accountEntry(org, id), func(ctx context.Context) (*Account, error) {
		if !strings.HasPrefix(id, tollgate.PrefixMerchantAccount) {
			return nil, tollgate.NotFound()
		}
		found, err := s.db.Hashes(ctx, "read_account", k.Object(id), k.Organization(), k.Shadowing())
		for i, key := range []string{k.Object(id), k.Organization()} {
			if err == nil {
				err = s.db.DamagedAt(ctx, key, rediskv.Counters(found[i]))
			}
		}
		if err != nil {
			return nil, err
		}
		s.db.Note(ctx, k.Object(id), found[0])
		s.db.Note(ctx, k.Organization(), found[1])
		s.db.Note(ctx, k.Shadowing(), found[2])
		a := &Account{Revision: found[0].Int("v"), Organization: found[1].Int("v")}
		var doc tollgate.PerimeterDocument
		var o tollgate.Organization
		if err := cmp.Or(found[0].Document(&a.MerchantAccount, found[0]["limits"], &doc), found[1].Document(&o)); err != nil {
			return nil, s.db.DamagedAt(ctx, k.Object(id), err)
		}
		a.active = o.Status == tollgate.StatusActive
		if a.Cutoffs, a.Closed, err = CutoffsOf(found[0], a.Cutoff); err != nil {
			return nil, s.db.DamagedAt(ctx, k.Object(id), err)
		}
		// What is only compared keeps nothing from being paid.
		a.Shadows, err = rules.ShadowsOf(found[2]["list"], &a.MerchantAccount)
		_ = s.db.DamagedAt(ctx, k.Shadowing(), cmp.Or(err, rediskv.Counters(found[2])))
		if a.Rules, err = s.rules.Pinned(ctx, k, a.RuleSet.Rules); err != nil {
			return nil, err
		}
		a.Perimeter, err = doc.Compile()
		return a, s.db.DamagedAt(ctx, k.Object(id), err)
	})
}

// Grant returns an access grant from the cache.
func (s *Store) Grant(ctx context.Context, org, id string) (*Grant, error) {
	if s.isFirst(ctx, org, grantEntry(org, id)) {
		if g, err := s.near.Grant(ctx, org, id); err == nil {
			return g, nil
		}
	}
	k := s.db.Space(org)
	return rediskv.Lookup(ctx, s.db, grantEntry(org, id), func(ctx context.Context) (*Grant, error) {
		f, err := s.db.ReadObject(ctx, "read_grant", k, tollgate.PrefixGrant, id)
		if err != nil {
			return nil, err
		}
		s.db.Note(ctx, k.Object(id), f)
		g := &Grant{Revision: f.Int("v")}
		g.Revoked, err = record.RevokedIn(f)
		err = cmp.Or(f.Document(&g.Grant), err)
		g.readLimits()
		return g, s.db.DamagedAt(ctx, k.Object(id), err)
	})
}

// readLimits reads the rate limits that an operator has set. What another release has
// written, and this one cannot read, sets none.
func (g *Grant) readLimits() {
	of, _ := gcra.Parse(g.ClientRateLimits)
	g.Own, _ = gcra.Parse(g.RateLimits)
	g.Limits = g.Own.Over(of)
}

// DoubtGrant says whether a grant, as it is cached, came from the replica, which may
// be behind. If so it is read from the primary before it is next used.
func (s *Store) DoubtGrant(org, id string) bool {
	return s.db.Cache.DistrustReplica(s.db.Clock(), grantEntry(org, id))
}

// Organization returns an organization from the cache.
func (s *Store) Organization(ctx context.Context, org string) (*Organization, error) {
	k := s.db.Space(org)
	return rediskv.Lookup(ctx, s.db, rediskv.EntryOf("organization", org, ""), func(ctx context.Context) (*Organization, error) {
		found, err := s.db.ReadHashes(ctx, "read_organization", k.Organization())
		if err != nil {
			return nil, err
		}
		s.db.Note(ctx, k.Organization(), found[0])
		o := &Organization{Revision: found[0].Int("v"), AccountIDs: strings.Fields(found[0]["accounts"])}
		return o, s.db.DamagedAt(ctx, k.Organization(), found[0].Document(&o.Organization))
	})
}

// Client returns a client by its id, from the cache.
func (s *Store) Client(ctx context.Context, id string) (*Client, error) {
	org, err := rediskv.Lookup(ctx, s.db, rediskv.EntryOf("directory", "", id), func(ctx context.Context) (org string, err error) {
		err = s.db.Timed(ctx, "client_directory", func(ctx context.Context) error {
			org, err = s.db.Redis.Get(ctx, rediskv.ClientKey(id)).Result()
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
	k := s.db.Space(org)
	return rediskv.Lookup(ctx, s.db, rediskv.EntryOf("client", org, id), func(ctx context.Context) (*Client, error) {
		found, err := s.db.ReadHashes(ctx, "read_client", k.Object(id))
		if err != nil {
			return nil, err
		}
		c := &Client{Revision: found[0].Int("v")}
		return c, s.db.DamagedAt(ctx, k.Object(id), found[0].Document(&c.Client))
	})
}

// Claimed is Client for somebody who says to be it. Who turns out to be a stranger calls
// strange, which says whether Redis was emptied. By then Redis was asked as often, whether
// there is such a client or not, and whether this instance knows it: how long a refusal
// takes does not tell.
func (s *Store) Claimed(ctx context.Context, id string) (c *Client, strange func(context.Context) (emptied bool, err error), err error) {
	known := s.db.Cache.Entries.Contains(rediskv.EntryOf("directory", "", id))
	c, err = s.Client(ctx, id)
	there := err == nil
	return c, func(ctx context.Context) (bool, error) {
		if known {
			if err := s.db.Timed(ctx, "client_directory", func(ctx context.Context) error {
				return rediskv.Answered(nil, s.db.Redis.Get(ctx, rediskv.ClientKey(id)).Err())
			}); err != nil {
				return false, err
			}
		}
		if known || !there {
			if _, err := s.db.Hashes(ctx, "read_client", s.db.Space(id).Object(id)); err != nil && !rediskv.Gone(err) {
				return false, err
			}
		}
		return s.db.Emptied(ctx)
	}, err
}

// Refresh marks what is cached of an organization as changed.
func (s *Store) Refresh(org string) { s.db.Cache.Forget(org) }

// Watch keeps the cache current by push until ctx ends. After a lost
// connection everything is read again: a change may have been missed.
func (s *Store) Watch(ctx context.Context) {
	news := func() {
		select {
		case s.db.News <- struct{}{}:
		default: // nobody has looked since the last one
		}
	}
	s.db.Subscribe(ctx, func(channel, text string) {
		if channel == rediskv.EventsChannel {
			s.eventlog.Tell(text)
			return
		}
		s.db.Cache.Forget(text)
		news()
	}, func() {
		s.db.Cache.ForgetAll()
		s.eventlog.TellAll()
		news()
	}, rediskv.ConfigChannel, rediskv.EventsChannel)
}

type readResourceKeys struct {
	rediskv.GrantKeys
	Resource, Sequences, Audit, Mark string
}

type readResourceArgs struct {
	rediskv.GrantArgs
	rediskv.AuditArgs
}

var scriptReadResource = script.New[readResourceKeys, readResourceArgs](lua, "read_resource")

// ReadResource reads what the endpoints of accounts and access show, compares the
// caller's grant and records the read, in one step.
func (s *Store) ReadResource(ctx context.Context, c rediskv.Caller, kind, id string) (doc []byte, revision int64, err error) {
	prefix, known := map[string]string{
		"organization": tollgate.PrefixOrganization, "legal_entity": tollgate.PrefixLegalEntity,
		"merchant_account": tollgate.PrefixMerchantAccount, "grant": tollgate.PrefixGrant, "client": tollgate.PrefixClient,
	}[kind]
	if !known || !strings.HasPrefix(id, prefix) || (kind == "organization" && id != c.Organization) {
		return nil, 0, tollgate.NotFound()
	}
	k := s.db.Space(c.Organization)
	key := k.Object(id)
	if kind == "organization" {
		key = k.Organization()
	}
	grant, granted := c.Grant(k)
	entry, err := s.db.Entry(c, kind+".read", "succeeded", "", kind, id)
	if err != nil {
		return nil, 0, err
	}
	_, rest, err := s.db.RunAnew(ctx, scriptReadResource.With(
		readResourceKeys{GrantKeys: grant, Resource: key, Sequences: k.Sequences(), Audit: k.Audit(), Mark: k.Mark(s.db.NewID(""))},
		readResourceArgs{granted, entry},
	))
	if err != nil {
		return nil, 0, err
	}
	f := rediskv.Fields(record.Verified(key, record.FieldsOf(rest[0])))
	text := f["v"]
	if revision, err = strconv.ParseInt(text, 10, 64); err != nil || revision < 1 || strconv.FormatInt(revision, 10) != text {
		return nil, 0, s.db.Damaged(ctx, k, kind, id, fmt.Errorf("%s %s: revision %q", kind, id, text))
	}
	if kind == "client" { // its document does not say what it is
		var o tollgate.Client
		if err = f.Document(&o); err == nil && o.ID != id {
			err = errors.New("another object's")
		}
		return []byte(f["json"]), revision, s.db.Damaged(ctx, k, kind, id, err)
	}
	if kind != "grant" {
		return []byte(f["json"]), revision, s.db.Damaged(ctx, k, kind, id, sameObject(f, kind, id))
	}
	var g tollgate.Grant // its status depends on the moment
	if err := f.Document(&g); err != nil || g.ID != id {
		return nil, 0, s.db.Damaged(ctx, k, kind, id, cmp.Or(err, errors.New("another object's")))
	}
	g.Status = g.At(s.db.Now())
	doc, err = json.Marshal(g)
	return doc, revision, err
}

// sameObject checks that a stored document can be read and is the one of an
// object.
func sameObject(f rediskv.Fields, kind, id string) error {
	var o struct {
		Object string `json:"object"`
		ID     string `json:"id"`
	}
	if err := f.Document(&o); err != nil {
		return err
	}
	if o.Object != kind || o.ID != id {
		return fmt.Errorf("%s %s: the document is of %s %q", kind, id, o.Object, o.ID)
	}
	return nil
}
