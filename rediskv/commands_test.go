package rediskv_test

import (
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/rules"
)

// These do what a handler does: read the facts, decide, commit, and again when
// another was faster.

// activation is what is asked for.
type activation struct {
	tollgate.ActivationRequest
	accounts []string
}

func (f *fixture) createActivation(t testing.TB, idem *rediskv.Idempotency, r activation) (rediskv.Result, error) {
	t.Helper()
	return rediskv.Retried(func() (rediskv.Result, error) {
		facts, err := f.RuleSetFacts(t.Context(), f.Caller, f.Config.RuleSets[0].ID, r.accounts, &r.Rule)
		if err != nil {
			return rediskv.Result{}, err
		}
		p, err := facts.Plan(r.ActivationRequest, f.Now())
		if err != nil {
			return rediskv.Result{}, err
		}
		ch := facts.Activate(f.NewID, p)
		return f.CommitRuleSet(t.Context(), f.Caller, idem, ch, answer(t, 201, p.Activation))
	})
}

func (f *fixture) cancelActivation(t testing.TB, id string) error {
	t.Helper()
	_, err := rediskv.Retried(func() (rediskv.Result, error) {
		facts, scheduled, err := f.ScheduledActivation(t.Context(), f.Caller, f.Config.RuleSets[0].ID, id)
		if err != nil {
			return rediskv.Result{}, err
		}
		ch, a, err := facts.Cancel(f.Origin(f.Caller), scheduled, &tollgate.Grant{})
		if err != nil {
			return rediskv.Result{}, err
		}
		return f.CommitRuleSet(t.Context(), f.Caller, nil, ch, answer(t, 200, a))
	})
	return err
}

func (f *fixture) rollBack(t testing.TB, accounts ...string) error {
	t.Helper()
	_, err := rediskv.Retried(func() (r rediskv.Result, err error) {
		facts, err := f.RollbackFacts(t.Context(), f.Caller, f.Config.RuleSets[0].ID, accounts)
		if err != nil {
			return r, err
		}
		back, err := facts.Previous(nil)
		if err != nil {
			return r, err
		}
		rules, err := f.RuleSetVersion(t.Context(), f.Caller.Organization, facts.ID, back)
		if err != nil {
			return r, err
		}
		ch, a, err := facts.RollBack(f.NewID, f.Origin(f.Caller), nil, back, rules)
		if err != nil {
			return r, err
		}
		return f.CommitRuleSet(t.Context(), f.Caller, nil, ch, answer(t, 201, a))
	})
	return err
}

// publishRule commits a rule whose module is its citation.
func (f *fixture) publishRule(t testing.TB, r tollgate.Rule, signer *rules.RuleSigner) (rediskv.Result, error) {
	t.Helper()
	return rediskv.Retried(func() (rediskv.Result, error) {
		facts, err := f.PublicationFacts(t.Context(), f.Caller.Organization, signer, r.Rule)
		if err != nil {
			return rediskv.Result{}, err
		}
		p, err := facts.Publish(f.NewID, f.Origin(f.Caller), r)
		if err != nil {
			return rediskv.Result{}, err
		}
		if p == nil {
			return rediskv.Result{Answer: answer(t, 200, facts.Published)}, nil
		}
		return f.PublishRule(t.Context(), f.Caller, nil, p, []byte(r.Rule.String()), []byte("[]"), answer(t, 201, r))
	})
}

func (f *fixture) startShadow(t testing.TB, shadow tollgate.Shadow) error {
	t.Helper()
	_, err := rediskv.Retried(func() (rediskv.Result, error) {
		facts, err := f.ShadowFacts(t.Context(), f.Caller.Organization)
		if err != nil {
			return rediskv.Result{}, err
		}
		ch, err := facts.Start(shadow)
		if err != nil {
			return rediskv.Result{}, err
		}
		return f.CommitShadow(t.Context(), f.Caller, nil, ch, answer(t, 201, shadow))
	})
	return err
}

// stop stops a shadow; between comes after the facts.
func (f *fixture) stop(t testing.TB, id string, between func()) error {
	t.Helper()
	_, err := rediskv.Retried(func() (r rediskv.Result, err error) {
		shadow, err := f.Shadow(t.Context(), f.Caller, id)
		if err != nil {
			return r, err
		}
		facts, err := f.ShadowFacts(t.Context(), f.Caller.Organization)
		if err != nil {
			return r, err
		}
		ch, err := facts.Stop(shadow, f.Now())
		if err != nil {
			return r, err
		}
		between()
		return f.CommitShadow(t.Context(), f.Caller, nil, ch, answer(t, 200, ch.Shadow.Value))
	})
	return err
}
