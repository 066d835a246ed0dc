package handlers

import (
	"context"
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
)

var payoutParameters = []string{"status", "merchant_account_id", "currency", "created_after", "created_before", "order", "limit", "cursor"}

// listPayouts searches payouts, the newest first.
func (s *Server) listPayouts(c *call) (*answer, error) {
	return search(s, c, func(r *input.Query) ledger.TransactionQuery { return parseSearch(r, tollgate.PayoutStatuses) }, func(ctx context.Context, caller rediskv.Caller, q ledger.TransactionQuery) ([]tollgate.PayoutObject, int64, bool, error) {
		found, next, more, err := c.store.Payouts(ctx, caller, q)
		rows := make([]tollgate.PayoutObject, len(found))
		for i := range found {
			rows[i] = found[i].JSON()
		}
		return rows, next, more, err
	})
}

// payout reads the payout that a path names, if the grant reaches it.
func (s *Server) payout(c *call, status int) (*tollgate.Payout, error) {
	p, err := c.store.Payout(c.ctx, c.caller(status), c.pathID())
	if err != nil {
		return nil, err
	}
	if !c.grant.Covers(p.MerchantAccountID) {
		return nil, accountForbidden()
	}
	return p, nil
}

func (s *Server) getPayout(c *call) (*answer, error) {
	p, err := s.payout(c, http.StatusOK)
	if err != nil {
		return nil, err
	}
	return object(p.JSON())
}

// releaseRequest is the body of POST …/release.
type releaseRequest struct {
	Reason string `json:"reason"`
}

func parseRelease(f *input.Fields) releaseRequest {
	reason, ok := f.Text("reason", true)
	if ok {
		f.Check(tollgate.CheckText("reason", reason, maxDescription), "")
	}
	return releaseRequest{reason}
}

// releasePayout lets a held payout go, of what its transactions add up to.
func (s *Server) releasePayout(c *call, r releaseRequest) (*answer, error) {
	return s.command(c, "payouts.release", r, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		if _, err := s.payout(c, http.StatusOK); err != nil {
			return rediskv.Result{}, err
		}
		caller := c.caller(http.StatusOK)
		was, err := s.store.StoredPayout(c.ctx, c.org, c.pathID())
		if err != nil {
			return rediskv.Result{}, err
		}
		recount, err := s.store.Recount(c.ctx, was)
		if err != nil {
			return rediskv.Result{}, err
		}
		change, err := tollgate.ReleasePayout(s.store.NewID, s.store.Origin(caller), was.StoredPayout, recount, r.Reason)
		if err != nil {
			return rediskv.Result{}, err
		}
		ans, err := reply(http.StatusOK, "", change.Payout.JSON(), []string{was.MerchantAccountID})
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitPayout(c.ctx, caller, idem, was, change, ans)
	})
}
