package handlers

import (
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv"
)

var payoutParameters = []string{"status", "merchant_account_id", "currency", "created_after", "created_before", "order", "limit", "cursor"}

// listPayouts searches payouts, the newest first.
func (s *Server) listPayouts(c *call) (*answer, error) {
	var q rediskv.TransactionQuery
	p, err := readPage[int64](s, c, "desc", func(r *input.Query) {
		q = rediskv.TransactionQuery{
			Statuses: r.Choices("status", tollgate.PayoutStatuses), Currency: r.Currency("currency"),
			CreatedAfter: r.Instant("created_after"), CreatedBefore: r.Instant("created_before"),
		}
		if account := r.ID("merchant_account_id"); account != "" {
			q.Accounts = []string{account}
		}
	})
	if err != nil {
		return nil, err
	}
	if q.Accounts, err = c.covered(q.Accounts); err != nil {
		return nil, err
	}
	q.Descending, q.After, q.Limit = p.Order == "desc", p.Position, p.Limit
	found, next, more, err := s.store.Payouts(c.ctx, c.caller(http.StatusOK), q)
	if err != nil {
		return nil, err
	}
	rows := make([]tollgate.PayoutObject, len(found))
	for i := range found {
		rows[i] = found[i].JSON()
	}
	return pageOf(p, rows, more, next)
}

// payout reads the payout that a path names, if the grant reaches it.
func (s *Server) payout(c *call, status int) (*tollgate.Payout, error) {
	p, err := s.store.Payout(c.ctx, c.caller(status), c.pathID())
	if err != nil {
		return nil, err
	}
	if !c.grant.Covers(p.MerchantAccountID) {
		return nil, accountForbidden()
	}
	return p, nil
}

func (s *Server) readPayout(c *call) (*answer, error) {
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

func readRelease(f *input.Fields) releaseRequest {
	reason, ok := f.Text("reason", true)
	if ok {
		f.Check(tollgate.CheckText("reason", reason, maxDescription), "")
	}
	return releaseRequest{reason}
}

// releasePayout lets a held payout go, of what its transactions add up to.
func (s *Server) releasePayout(c *call, r releaseRequest) (*answer, error) {
	idem, err := c.idempotency(c.org, "payouts.release", r)
	if err != nil {
		return nil, err
	}
	if _, err := s.payout(c, http.StatusOK); err != nil {
		return s.orRepeated(c, idem, err)
	}
	result, err := rediskv.Retried(func() (rediskv.Result, error) {
		caller := c.caller(http.StatusOK)
		was, err := s.store.StoredPayout(c.ctx, c.org, c.pathID())
		if err != nil {
			return rediskv.Result{}, err
		}
		recount, err := s.store.Recount(c.ctx, was)
		if err != nil {
			return rediskv.Result{}, err
		}
		change, err := tollgate.ReleasePayout(s.store.Mint, s.store.Origin(caller), was.StoredPayout, recount, r.Reason)
		if err != nil {
			return rediskv.Result{}, err
		}
		a, err := object(change.Payout.JSON())
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitPayout(c.ctx, caller, keyOf(idem), was, change, rediskv.Answer{Status: a.status, Body: a.body, Reach: []string{was.MerchantAccountID}})
	})
	if err != nil {
		return s.orRepeated(c, idem, err)
	}
	return s.answered(c, idem, result)
}
