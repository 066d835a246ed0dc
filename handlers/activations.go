package handlers

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// activationRequest is the body of POST …/activations.
type activationRequest struct {
	Rule     tollgate.Citation `json:"rule"`
	Replaces tollgate.Citation `json:"replaces,omitzero"` // none: the version before, or nothing
	Position int               `json:"position"`          // 0: where the version before is, or the end
	At       tollgate.Instant  `json:"at"`                // null: now
	Accounts []string          `json:"merchant_account_ids"`
}

func readActivationRequest(f *fields) activationRequest {
	return activationRequest{
		Rule: f.citation("rule", true), Replaces: f.citation("replaces", false), Position: f.whole("position", 0, 1, tollgate.MaxRules), At: f.instant("at", false),
		Accounts: f.list("merchant_account_ids", rediskv.MaxActivated, checkAccountID),
	}
}

// rollbackRequest is the body of POST …/rollback.
type rollbackRequest struct {
	Accounts []string `json:"merchant_account_ids"`
}

func readRollback(f *fields) rollbackRequest {
	return rollbackRequest{f.list("merchant_account_ids", rediskv.MaxActivated, checkAccountID)}
}

// instancesReady says how far the instances of the service are with what an
// activation names.
type instancesReady struct {
	Ready   int               `json:"ready"`
	Total   int               `json:"total"`
	Failing []failingInstance `json:"failing"`
}

type failingInstance struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// activationAnswer is an activation with the instances, which matter until it
// takes effect.
type activationAnswer struct {
	tollgate.Activation
	Instances *instancesReady `json:"instances"`
}

// activate schedules a new version of a rule set for accounts. The worker
// carries it out at its time, once every instance has the rules.
func (s *Server) activate(c *call, r activationRequest) (*answer, error) {
	return s.ruleSetCommand(c, "rules.activate", r, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		if now := tollgate.At(s.clock()); r.At != 0 && r.At < now {
			return rediskv.Result{}, tollgate.Invalid("at", "at lies in the past; leave it out for now.")
		}
		return s.store.CreateActivation(c.ctx, c.caller(http.StatusCreated), idem, rediskv.ActivationRequest{
			RuleSetID: c.pathID(), Rule: r.Rule, Replaces: r.Replaces, Position: r.Position, At: r.At, Accounts: r.Accounts, Covers: c.grant.Covers,
			Answer: s.activationReply(c, http.StatusCreated),
		})
	})
}

// rollBack gives accounts the version before back, at once.
func (s *Server) rollBack(c *call, r rollbackRequest) (*answer, error) {
	return s.ruleSetCommand(c, "rules.rollback", r, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		return s.store.RollBack(c.ctx, c.caller(http.StatusCreated), idem, rediskv.ActivationRequest{
			RuleSetID: c.pathID(), Accounts: r.Accounts, Covers: c.grant.Covers, Answer: s.activationReply(c, http.StatusCreated),
		})
	})
}

func (s *Server) cancelActivation(c *call) (*answer, error) {
	return s.ruleSetCommand(c, "rules.cancel", nil, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		return s.store.CancelActivation(c.ctx, c.caller(http.StatusOK), idem, c.pathID(), c.params.ByName("activation_id"),
			c.grant.Covers, s.activationReply(c, http.StatusOK))
	})
}

// ruleSetCommand carries out a change of what a rule set's accounts are priced
// with. A refusal depends on the moment, so a repeat gets the first answer.
func (s *Server) ruleSetCommand(c *call, operation string, request any, do func(*rediskv.Idempotency) (rediskv.Result, error)) (*answer, error) {
	idem, err := c.idempotency(c.org, operation, request)
	if err != nil {
		return nil, err
	}
	result, err := do(keyOf(idem))
	if err != nil {
		return s.orRepeated(c, idem, err)
	}
	return stored(result), nil
}

func (s *Server) activationReply(c *call, status int) func(*tollgate.Activation) (rediskv.Answer, error) {
	return func(a *tollgate.Activation) (rediskv.Answer, error) {
		list, err := s.withInstances(c, *a)
		if err != nil {
			return rediskv.Answer{}, err
		}
		body, err := json.Marshal(list[0], json.Deterministic(true))
		location := ""
		if status == http.StatusCreated {
			location = "/v1/rule-sets/" + a.RuleSetID + "/activations/" + a.ID
		}
		return rediskv.Answer{Status: status, Location: location, Body: body}, err
	}
}

func (s *Server) readActivation(c *call) (*answer, error) {
	a, err := s.store.Activation(c.ctx, c.caller(http.StatusOK), c.pathID(), c.params.ByName("activation_id"))
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
	p, err := readPage[string](s, c, "desc", func(*queryReader) {})
	if err != nil {
		return nil, err
	}
	rows, next, err := s.store.Activations(c.ctx, c.caller(http.StatusOK), c.pathID(), p.Position, p.limit)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(a tollgate.Activation) bool { return !c.reachesActivation(&a) })
	list, err := s.withInstances(c, rows...)
	if err != nil {
		return nil, err
	}
	return pageOf(s, c, p, list, next != "", next)
}

// withInstances adds what the instances say to activations that are still to
// come.
func (s *Server) withInstances(c *call, rows ...tollgate.Activation) ([]activationAnswer, error) {
	list := make([]activationAnswer, len(rows))
	var instances []rediskv.Instance
	asked := false
	for i, a := range rows {
		list[i].Activation = a
		if a.Status != tollgate.ActivationScheduled {
			continue
		}
		if !asked {
			var err error
			if instances, err = s.store.Instances(c.ctx); err != nil {
				return nil, err
			}
			asked = true
		}
		r := &instancesReady{Total: len(instances), Failing: []failingInstance{}}
		for _, instance := range instances {
			switch lacks, reason := instance.Lacks(a.Rules); {
			case !lacks:
				r.Ready++
			case reason != "":
				r.Failing = append(r.Failing, failingInstance{instance.ID, reason})
			}
		}
		list[i].Instances = r
	}
	return list, nil
}
