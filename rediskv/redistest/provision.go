package redistest

import (
	"context"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
)

// Provision makes an organization's configuration so, as the command does, but
// judges no rules; with dryRun it only says what would change.
func Provision(ctx context.Context, s *store.Store, want tollgate.Config, dryRun bool) ([]tollgate.ConfigChange, error) {
	return rediskv.Retried(func() ([]tollgate.ConfigChange, error) {
		facts, err := s.ConfigFacts(ctx, want)
		if err != nil {
			return nil, err
		}
		p, err := tollgate.Provision(s.NewID, s.Origin(rediskv.Caller{Organization: want.Organization.ID}), facts, want)
		if err != nil {
			return nil, err
		}
		if !dryRun {
			err = s.CommitConfig(ctx, p)
		}
		return p.Changes, err
	})
}
