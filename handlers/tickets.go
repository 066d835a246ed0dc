package handlers

import "net/http"

// getTicket shows a payment's fee lines, its decision and its events (spec §2).
func (s *Server) getTicket(c *call) (*answer, error) {
	t, err := c.store.Ticket(c.ctx, c.caller(http.StatusOK), c.pathID())
	if err != nil {
		return nil, err
	}
	if !c.grant.Covers(t.MerchantAccountID) {
		return nil, accountForbidden()
	}
	return object(t)
}
