package rulesync

import (
	"context"
	"fmt"

	"tollgate"
	"tollgate/handlers/problem"
	"tollgate/handlers/share"
)

// Load fetches published modules and compiles them, one after the other,
// until one cannot be. However many requests need one, it is done once.
func (s *Sync) Load(ctx context.Context, org string, refs ...tollgate.RuleRef) error {
	for _, ref := range refs {
		if err := s.loadRule(ctx, org, ref); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sync) loadRule(ctx context.Context, org string, ref tollgate.RuleRef) error {
	if s.Engine.Has(ref) {
		return nil
	}
	_, err, _ := s.fetching.Do(org+" "+ref.Rule.String()+" "+ref.SHA256, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		release, err := s.Compiling.Acquire(ctx, org, "")
		if err != nil {
			return nil, share.Refusal(err)
		}
		defer release()
		module, err := s.Store.Module(ctx, org, ref)
		if err != nil {
			return nil, err
		}
		loaded, err := s.Engine.Load(ctx, ref.Rule, module)
		if err == nil && loaded != ref {
			err = fmt.Errorf("its SHA-256 is %s, not %s", loaded.SHA256, ref.SHA256)
		}
		return nil, err
	})
	switch {
	case err == nil:
		return nil
	case Passes(err):
		return err
	default:
		return &tollgate.Error{
			Code: tollgate.CodeRuleFailed, Rule: &ref.Rule, Cause: err,
			Message: "The pricing rule " + ref.Rule.String() + " could not be evaluated.",
		}
	}
}

// Passes reports whether a rule could not be loaded just now, and nothing is
// known of the rule itself.
func Passes(err error) bool {
	if err == nil {
		return false
	}
	code := problem.From(err).Code
	return code == tollgate.CodeStoreUnavailable || code == tollgate.CodeShareExhausted
}

// Prepare loads the rules of accounts, by organization, where nobody can say what else
// is in force. The instance is then as complete as it can be.
func (s *Sync) Prepare(ctx context.Context, accounts map[string][]string) {
	for org, ids := range accounts {
		for _, id := range ids {
			a, err := s.Store.Account(ctx, org, id)
			if err == nil && s.Fits() {
				err = s.Load(ctx, org, a.Rules...)
			}
			if err != nil { // the quote that needs it says so
				s.Log.Warn("an account cannot be quoted for", "organization", org, "merchant_account", id, "error", err)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = true
}
