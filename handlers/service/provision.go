package service

import (
	"context"
	"fmt"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
)

// Judge refuses a rule that an account may not be given.
type Judge func(ctx context.Context, org string, priced tollgate.NewlyPriced) error

// Provision makes an organization's configuration so, once the rules that would
// newly price something have been judged (nil: they are not), or with dryRun only
// says what would change.
func Provision(ctx context.Context, store *store.Store, want tollgate.Config, judge Judge, dryRun bool) ([]tollgate.ConfigChange, error) {
	org := want.Organization.ID
	return rediskv.Retried(func() ([]tollgate.ConfigChange, error) {
		facts, err := store.ConfigFacts(ctx, want)
		if err != nil {
			return nil, err
		}
		p, err := tollgate.Provision(store.NewID, store.Origin(rediskv.Caller{Organization: org}), facts, want)
		if err != nil {
			return nil, err
		}
		for _, n := range p.NewlyPriced {
			if judge == nil {
				break
			}
			if err := judge(ctx, org, n); err != nil {
				return nil, fmt.Errorf("merchant account %s: %w", n.MerchantAccountID, err)
			}
		}
		if dryRun {
			return p.Changes, nil
		}
		return p.Changes, store.CommitConfig(ctx, p)
	})
}
