package rules

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// Organizations hands over the ids of all organizations, some at a time; one that
// is provisioned meanwhile may be among them or not, and one may come twice.
func (s *Store) Organizations(ctx context.Context, some func(ids []string) error) error {
	cursors := make([]uint64, s.db.Partitions())
	left := make([]int, s.db.Partitions())
	for p := range left {
		left[p] = p
	}
	for len(left) > 0 {
		var ids []string
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
	cited, err := s.citedBy(ctx, orgs)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, c := range cited {
		keys = append(keys, s.db.Space(c.org).Rule(c.rule))
	}
	sums, err := s.db.ReadFields(ctx, "read_rules", keys, "sha")
	if err != nil {
		return nil, err
	}
	found := make(map[string][]tollgate.RuleRef)
	for i, c := range cited {
		found[c.org] = append(found[c.org], tollgate.RuleRef{Rule: c.rule, SHA256: sums[i]["sha"]})
	}
	return found, nil
}

// cited is a rule that an organization uses.
type cited struct {
	org  string
	rule tollgate.Citation
}

func (s *Store) citedBy(ctx context.Context, orgs []string) (list []cited, err error) {
	accounts, err := s.accountsOf(ctx, orgs)
	if err != nil {
		return nil, err
	}
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

// accountsOf names the accounts of active organizations.
func (s *Store) accountsOf(ctx context.Context, orgs []string) (list []accountOf, err error) {
	keys := make([]string, len(orgs))
	for i, org := range orgs {
		keys[i] = s.db.Space(org).Organization()
	}
	found, err := s.db.ReadFields(ctx, "read_organizations", keys, "json", "accounts")
	if err != nil {
		return nil, err
	}
	for i, org := range orgs {
		var o tollgate.Organization
		if found[i]["json"] == "" {
			continue
		}
		if err := found[i].Document(&o); err != nil {
			_ = s.db.DamagedAt(ctx, keys[i], err)
			continue
		}
		if o.Status != tollgate.StatusActive {
			continue
		}
		for _, id := range strings.Fields(found[i]["accounts"]) {
			list = append(list, accountOf{org, id})
		}
	}
	return list, nil
}
