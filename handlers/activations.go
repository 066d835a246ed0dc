package handlers

import (
	"net/http"
	"slices"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv"
	"tollgate/rediskv/instances"
)

// activationRequest is the body of POST …/activations. Its JSON is the
// fingerprint of a repeated request.
type activationRequest struct {
	Rule     tollgate.Citation `json:"rule"`
	Replaces tollgate.Citation `json:"replaces,omitzero"` // none: the version before, or nothing
	Adds     bool              `json:"adds,omitzero"`
	Position int               `json:"position"` // 0: where the version before is, or the end
	At       tollgate.Instant  `json:"at"`       // null: now
	Accounts []string          `json:"merchant_account_ids"`

	dryRun bool
}

func parseActivationRequest(f *input.Fields) activationRequest {
	return activationRequest{
		Rule: f.Citation("rule", true), Replaces: f.ActiveRule("replaces"), Adds: f.Flag("adds", false),
		Position: f.Whole("position", 0, 1, tollgate.MaxRules), At: f.Instant("at", false),
		Accounts: f.List("merchant_account_ids", tollgate.MaxActivated, checkAccountID),
		dryRun:   f.Flag("dry_run", false),
	}
}

// rollbackRequest is the body of POST …/rollback.
type rollbackRequest struct {
	Accounts []string `json:"merchant_account_ids"`
}

func parseRollback(f *input.Fields) rollbackRequest {
	return rollbackRequest{f.List("merchant_account_ids", tollgate.MaxActivated, checkAccountID)}
}

// activationPreview is what an activation would be.
type activationPreview struct {
	Object             string                  `json:"object"` // "activation_preview"
	RuleSetID          string                  `json:"rule_set_id"`
	Rule               *tollgate.Citation      `json:"rule"`
	Replaces           *tollgate.Citation      `json:"replaces"`
	FromVersion        int64                   `json:"from_version"`
	ToVersion          int64                   `json:"to_version"`
	Rules              []tollgate.RuleRef      `json:"rules"`
	MerchantAccountIDs []string                `json:"merchant_account_ids"`
	At                 tollgate.Instant        `json:"at"`
	Comparison         *tollgate.FeeComparison `json:"comparison"`
}

// activate schedules a new version of a rule set for accounts. The worker
// carries it out at its time, once every instance has the rules.
func (s *Server) activate(c *call, r activationRequest) (*answer, error) {
	request := tollgate.ActivationRequest{
		RuleChange: tollgate.RuleChange{Rule: r.Rule, Replaces: r.Replaces, Adds: r.Adds, Position: r.Position},
		At:         r.At, Grant: &c.grant.Grant,
	}
	inTime := func() error {
		if r.At != 0 && r.At < tollgate.At(s.clock()) {
			return tollgate.Invalid("at", "at lies in the past; leave it out for now.")
		}
		return nil
	}
	if r.dryRun {
		if err := inTime(); err != nil {
			return nil, err
		}
		return s.previewActivation(c, r.Accounts, request)
	}
	return s.command(c, "rules.activate", r, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		if err := inTime(); err != nil {
			return rediskv.Result{}, err
		}
		facts, p, compared, err := s.planActivation(c, http.StatusCreated, r.Accounts, request)
		if err != nil {
			return rediskv.Result{}, err
		}
		change := facts.Activate(s.store.NewID, p)
		list, err := s.withInstances(c, p.Activation)
		if err != nil {
			return rediskv.Result{}, err
		}
		list[0].Comparison = compared
		return s.commitRuleSet(c, idem, change, &p.Activation, http.StatusCreated, list[0])
	})
}

// planActivation says what an activation would be, and what it would change; one
// that makes currencies free by saying nothing about them is refused.
func (s *Server) planActivation(c *call, status int, accounts []string, r tollgate.ActivationRequest) (*tollgate.RuleSetFacts, *tollgate.ActivationPlan, *tollgate.FeeComparison, error) {
	facts, err := s.store.RuleSetFacts(c.ctx, c.caller(status), c.pathID(), accounts, &r.Rule)
	if err != nil {
		return nil, nil, nil, err
	}
	p, err := facts.Plan(r, s.store.Now())
	if err != nil {
		return nil, nil, nil, err
	}
	if err := s.sync.RefuseSilence(c.ctx, c.org, p); err != nil {
		return nil, nil, nil, err
	}
	compared, err := s.sync.CompareFees(c.ctx, c.org, p)
	return facts, p, compared, err
}

// commitRuleSet writes a change of a rule set by an activation, which is
// answered as it is shown.
func (s *Server) commitRuleSet(c *call, idem *rediskv.Idempotency, change *tollgate.RuleSetChange, a *tollgate.Activation, status int, shown any) (rediskv.Result, error) {
	location := ""
	if status == http.StatusCreated {
		location = "/v1/rule-sets/" + a.RuleSetID + "/activations/" + a.ID
	}
	ans, err := reply(status, location, shown, a.MerchantAccountIDs)
	if err != nil {
		return rediskv.Result{}, err
	}
	return s.store.CommitRuleSet(c.ctx, c.caller(status), idem, change, ans)
}

// previewActivation says what an activation would change. It writes nothing: no
// key, no event, no audit entry.
func (s *Server) previewActivation(c *call, accounts []string, request tollgate.ActivationRequest) (*answer, error) {
	_, p, compared, err := s.planActivation(c, http.StatusOK, accounts, request)
	if err != nil {
		return nil, err
	}
	return object(activationPreview{
		Object: "activation_preview", RuleSetID: p.RuleSetID, Rule: p.Rule, Replaces: p.Replaces, FromVersion: p.FromVersion, ToVersion: p.ToVersion,
		Rules: p.Rules, MerchantAccountIDs: p.MerchantAccountIDs, At: p.At, Comparison: compared,
	})
}

// rollBack gives accounts the version before back, at once.
func (s *Server) rollBack(c *call, r rollbackRequest) (*answer, error) {
	return s.command(c, "rules.rollback", r, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		facts, err := s.store.RollbackFacts(c.ctx, c.caller(http.StatusCreated), c.pathID(), r.Accounts)
		if err != nil {
			return rediskv.Result{}, err
		}
		back, err := facts.Previous(&c.grant.Grant)
		if err != nil {
			return rediskv.Result{}, err
		}
		rules, err := s.store.RuleSetVersion(c.ctx, c.org, facts.ID, back)
		if err != nil {
			return rediskv.Result{}, err
		}
		change, a, err := facts.RollBack(s.store.NewID, s.store.Origin(c.caller(http.StatusCreated)), &c.grant.Grant, back, rules)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.commitRuleSet(c, idem, change, a, http.StatusCreated, tollgate.ActivationAnswer{Activation: *a})
	})
}

func (s *Server) cancelActivation(c *call) (*answer, error) {
	return s.command(c, "rules.cancel", nil, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		facts, scheduled, err := s.store.ScheduledActivation(c.ctx, c.caller(http.StatusOK), c.pathID(), c.params.ByName("activation_id"))
		if err != nil {
			return rediskv.Result{}, err
		}
		change, a, err := facts.Cancel(s.store.Origin(c.caller(http.StatusOK)), scheduled, &c.grant.Grant)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.commitRuleSet(c, idem, change, a, http.StatusOK, tollgate.ActivationAnswer{Activation: *a})
	})
}

func (s *Server) getActivation(c *call) (*answer, error) {
	a, err := c.store.Activation(c.ctx, c.caller(http.StatusOK), c.pathID(), c.params.ByName("activation_id"))
	if err != nil {
		return nil, err
	}
	if !c.reachesActivation(a) {
		return nil, accountForbidden()
	}
	list, err := s.withInstances(c, *a)
	if err != nil {
		return nil, err
	}
	return object(list[0])
}

// reachesActivation reports whether the grant covers all that it moves.
func (c *call) reachesActivation(a *tollgate.Activation) bool {
	return !slices.ContainsFunc(a.MerchantAccountIDs, func(id string) bool { return !c.grant.Covers(id) })
}

// listActivations lists the activations of a rule set that the grant reaches,
// the newest first. A page may have fewer than were asked for.
func (s *Server) listActivations(c *call) (*answer, error) {
	return listBy(s, c, "desc", nil, func(after string, limit int) ([]tollgate.ActivationAnswer, string, error) {
		rows, next, err := c.store.Activations(c.ctx, c.caller(http.StatusOK), c.pathID(), after, limit)
		if err != nil {
			return nil, "", err
		}
		answers, err := s.withInstances(c, slices.DeleteFunc(rows, func(a tollgate.Activation) bool {
			return a.Damaged && len(c.grant.MerchantAccountIDs) > 0 || !a.Damaged && !c.reachesActivation(&a)
		})...)
		return answers, next, err
	})
}

// withInstances adds what the instances say to activations that are still to
// come.
func (s *Server) withInstances(c *call, rows ...tollgate.Activation) ([]tollgate.ActivationAnswer, error) {
	list := make([]tollgate.ActivationAnswer, len(rows))
	var instances []instances.Instance
	asked := false
	for i, a := range rows {
		list[i].Activation = a
		if a.Status != tollgate.ActivationScheduled {
			continue
		}
		if !asked {
			var err error
			if instances, err = c.store.Instances(c.ctx); err != nil {
				return nil, err
			}
			asked = true
		}
		r := &tollgate.InstancesReady{Total: len(instances), Failing: []tollgate.FailingInstance{}}
		for _, instance := range instances {
			switch lacks, reason := instance.Lacks(a.Rules); {
			case !lacks:
				r.Ready++
			case reason != "":
				r.Failing = append(r.Failing, tollgate.FailingInstance{ID: instance.ID, Error: reason})
			}
		}
		list[i].Instances = r
	}
	return list, nil
}
