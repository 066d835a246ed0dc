package handlers

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv"
)

// shadowRequest is the body of POST /v1/shadows.
type shadowRequest struct {
	Rule     tollgate.Citation `json:"rule"`
	Against  tollgate.Citation `json:"against"`
	Accounts []string          `json:"merchant_account_ids"`
}

func parseShadowRequest(f *input.Fields) shadowRequest {
	return shadowRequest{f.Citation("rule", true), f.Citation("against", true), f.List("merchant_account_ids", tollgate.MaxActivated, checkAccountID)}
}

// Shadow compares candidates with what was charged until ctx ends, and writes down
// what was found.
func (s *Server) Shadow(ctx context.Context) { s.shadows.Run(ctx) }

// startShadow has a candidate priced beside a rule that is in force.
func (s *Server) startShadow(c *call, r shadowRequest) (*answer, error) {
	return s.command(c, "rules.shadow", r, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		if r.Rule == r.Against {
			return rediskv.Result{}, tollgate.Invalid("against", "A rule is not compared with itself.")
		}
		refs, err := s.store.Resolve(c.ctx, c.org, []tollgate.Citation{r.Rule, r.Against})
		if err != nil {
			return rediskv.Result{}, err
		}
		for i, param := range []string{"rule", "against"} {
			if refs[i].SHA256 == "" {
				return rediskv.Result{}, &tollgate.Error{Code: tollgate.CodeNotFound, Param: param, Message: "There is no " + refs[i].Rule.String() + "."}
			}
		}
		accounts, err := s.webhookAccounts(c, r.Accounts)
		if err != nil {
			return rediskv.Result{}, err
		}
		if accounts == nil {
			accounts = []string{}
		}
		shadow := tollgate.Shadow{
			Object: "shadow", ID: s.store.NewID(tollgate.PrefixShadow), CreatedAt: tollgate.At(s.clock()), Rule: refs[0], Against: r.Against,
			MerchantAccountIDs: accounts, Status: tollgate.StatusActive, Totals: tollgate.ShadowTotals{Differences: []tollgate.ShadowDifference{}},
		}
		ans, err := reply(http.StatusCreated, "/v1/shadows/"+shadow.ID, shadow, accounts)
		if err != nil {
			return rediskv.Result{}, err
		}
		facts, err := s.store.ShadowFacts(c.ctx, c.org)
		if err != nil {
			return rediskv.Result{}, err
		}
		change, err := facts.Start(shadow)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitShadow(c.ctx, c.caller(ans.Status), idem, change, ans)
	})
}

func (s *Server) stopShadow(c *call) (*answer, error) {
	return s.command(c, "rules.unshadow", nil, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		shadow, err := s.shadow(c)
		if err != nil {
			return rediskv.Result{}, err
		}
		facts, err := s.store.ShadowFacts(c.ctx, c.org)
		if err != nil {
			return rediskv.Result{}, err
		}
		change, err := facts.Stop(shadow, s.store.Now())
		if err != nil {
			return rediskv.Result{}, err
		}
		ans, err := reply(http.StatusOK, "", change.Shadow.Value, shadow.Value.MerchantAccountIDs)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitShadow(c.ctx, c.caller(ans.Status), idem, change, ans)
	})
}

// shadow reads the shadow that a path names, if the grant reaches all of it.
func (s *Server) shadow(c *call) (tollgate.Stored[tollgate.Shadow], error) {
	shadow, err := c.store.Shadow(c.ctx, c.caller(http.StatusOK), c.pathID())
	if err == nil && !c.reaches(shadow.Value.MerchantAccountIDs) {
		err = accountForbidden()
	}
	return shadow, err
}

func (s *Server) getShadow(c *call) (*answer, error) {
	shadow, err := s.shadow(c)
	if err != nil {
		return nil, err
	}
	return object(shadow.Value)
}

// listShadows lists the shadows that the grant reaches, the newest first. A page
// may have fewer than were asked for.
func (s *Server) listShadows(c *call) (*answer, error) {
	return listBy(s, c, "desc", nil, func(after string, limit int) ([]tollgate.Shadow, string, error) {
		rows, next, err := c.store.Shadows(c.ctx, c.caller(http.StatusOK), after, limit)
		reached := rows[:0]
		for _, shadow := range rows {
			if shadow.Damaged && len(c.grant.MerchantAccountIDs) == 0 || !shadow.Damaged && c.reaches(shadow.MerchantAccountIDs) {
				reached = append(reached, shadow)
			}
		}
		return reached, next, err
	})
}

// listDivergences lists what a shadow has found, the newest first.
func (s *Server) listDivergences(c *call) (*answer, error) {
	return listBy(s, c, "desc", nil, func(after string, limit int) ([]jsontext.Value, string, error) {
		if _, err := s.shadow(c); err != nil {
			return nil, "", err
		}
		return c.store.Divergences(c.ctx, c.caller(http.StatusOK), c.pathID(), after, limit)
	})
}
