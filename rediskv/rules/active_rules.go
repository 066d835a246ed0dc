package rules

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/instances"
)

// Organizations hands over the ids of all organizations, some at a time, from where a
// listing has begun; one that is provisioned meanwhile may be among them or not, and
// one may come twice.
func (s *Store) Organizations(ctx context.Context, begun instances.Listing, some func(ids []string) error) error {
	cursors, ids := begun.Cursors, begun.IDs
	if cursors == nil {
		cursors = make([]uint64, s.db.Partitions())
	} else if err := some(ids); err != nil {
		return err
	}
	var left []int
	for p, cursor := range cursors {
		if begun.Cursors == nil || cursor != 0 {
			left = append(left, p)
		}
	}
	for len(left) > 0 {
		ids = nil
		err := s.db.Timed(ctx, "organizations", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			replies := make([]*redis.ScanCmd, len(left))
			for i, p := range left {
				replies[i] = pipe.SScan(ctx, rediskv.OrganizationsKey(p), cursors[p], "", rediskv.ReadTogether)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			for i, p := range left {
				var page []string
				page, cursors[p] = replies[i].Val()
				ids = append(ids, page...)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := some(ids); err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(p int) bool { return cursors[p] == 0 })
	}
	return nil
}

// ActiveRules finds, by organization, the rules that price its payments now and do
// not come with the service: those of its active accounts' rule sets, each once.
// One that has not been published has no sum. An organization without any is not
// in the map.
func (s *Store) ActiveRules(ctx context.Context, orgs []string) (map[string][]tollgate.RuleRef, error) {
	accounts, published, err := s.accountsOf(ctx, orgs)
	if err != nil {
		return nil, err
	}
	sums := make(map[cited]string)
	known := rediskv.Beside(func() error { return s.sumsOf(ctx, published, sums) })
	inForce, err := s.citedBy(ctx, accounts)
	if known(&err); err != nil {
		return nil, err
	}
	var more []cited
	for _, c := range inForce {
		if _, ok := sums[c]; !ok {
			more = append(more, c)
		}
	}
	if err := s.sumsOf(ctx, more, sums); err != nil {
		return nil, err
	}
	found := make(map[string][]tollgate.RuleRef)
	for _, c := range inForce {
		found[c.org] = append(found[c.org], tollgate.RuleRef{Rule: c.rule, SHA256: sums[c]})
	}
	return found, nil
}

// sumsOf reads the sums of rules, empty for what has not been published.
func (s *Store) sumsOf(ctx context.Context, list []cited, into map[cited]string) error {
	keys := make([]string, len(list))
	for i, c := range list {
		keys[i] = s.db.Space(c.org).Rule(c.rule)
	}
	found, err := s.db.ReadFields(ctx, "read_rules", keys, "sha")
	for i, f := range found {
		into[list[i]] = f["sha"]
	}
	return err
}

// cited is a rule that an organization uses.
type cited struct {
	org  string
	rule tollgate.Citation
}

// citedBy are the rules that accounts use and that do not come with the service, each
// once.
func (s *Store) citedBy(ctx context.Context, accounts []accountOf) (list []cited, err error) {
	seen := make(map[cited]bool)
	for some := range slices.Chunk(accounts, rediskv.ReadTogether) { // there may be many, and each is long
		keys := make([]string, len(some))
		for i, a := range some {
			keys[i] = s.db.Space(a.org).Object(a.id)
		}
		docs, err := s.db.ReadFields(ctx, "read_accounts", keys, "json")
		if err != nil {
			return nil, err
		}
		for i, doc := range docs {
			var a tollgate.MerchantAccount
			if doc["json"] == "" {
				continue
			}
			if err := doc.Document(&a); err != nil { // it has no payments, and the others have
				_ = s.db.DamagedAt(ctx, keys[i], err)
				continue
			}
			if a.Status != tollgate.StatusActive {
				continue
			}
			for _, rule := range a.RuleSet.Rules {
				c := cited{some[i].org, rule}
				if _, ok := s.db.Builtin[rule]; !ok && !seen[c] {
					seen[c] = true
					list = append(list, c)
				}
			}
		}
	}
	return list, nil
}

type accountOf struct{ org, id string }

// publishedAhead is how many of an organization's published rules are named with its
// accounts: the sums of these can be read beside the accounts that may use them.
const publishedAhead = 100

// accountsOf names the accounts of active organizations, and rules that these have
// published.
func (s *Store) accountsOf(ctx context.Context, orgs []string) (list []accountOf, published []cited, err error) {
	for some := range slices.Chunk(orgs, rediskv.ReadTogether) {
		found := make([]*redis.SliceCmd, len(some))
		members := make([]*redis.StringSliceCmd, len(some))
		if err := s.db.Timed(ctx, "read_organizations", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			for i, org := range some {
				k := s.db.Space(org)
				found[i] = pipe.HMGet(ctx, k.Organization(), "v", "json", "accounts", rediskv.EnvelopeField)
				members[i] = pipe.ZRange(ctx, k.Rules(), -publishedAhead, -1)
			}
			_, err := pipe.Exec(ctx)
			return err
		}); err != nil {
			return nil, nil, err
		}
		for i, org := range some {
			f := rediskv.VerifiedIn(s.db.Space(org).Organization(), found[i].Val(), "v", "json", "accounts", rediskv.EnvelopeField)
			var o tollgate.Organization
			if f["json"] == "" {
				continue
			}
			if err := f.Document(&o); err != nil {
				_ = s.db.DamagedAt(ctx, s.db.Space(org).Organization(), err)
				continue
			}
			if o.Status != tollgate.StatusActive {
				continue
			}
			for _, id := range strings.Fields(f["accounts"]) {
				list = append(list, accountOf{org, id})
			}
			for _, m := range members[i].Val() {
				if rule, err := citationOf(m); err == nil {
					published = append(published, cited{org, rule})
				}
			}
		}
	}
	return list, published, nil
}
