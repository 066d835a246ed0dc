package handlers

import (
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv/ledger"
)

var transactionParameters = []string{
	"status", "type", "merchant_account_id", "payment_id", "payout_id", "payee", "currency", "reference",
	"created_after", "created_before", "order", "limit", "cursor",
}

// words are the members of an enumeration, as a query has them.
func words[T ~string](list []T) []string {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = string(one)
	}
	return names
}

// listTransactions searches transactions, the newest first.
func (s *Server) listTransactions(c *call) (*answer, error) {
	return search(s, c, parseTransactionQuery, c.store.Transactions)
}

// parseTransactionQuery reads the filters; Accounts has at most the one that is
// named.
func parseTransactionQuery(r *input.Query) ledger.TransactionQuery {
	q := parseSearch(r, tollgate.TransactionStatuses)
	q.PaymentID, q.PayoutID = r.ID("payment_id"), r.ID("payout_id")
	if t := r.Choice("type", "", tollgate.TransactionTypes...); t != "" {
		q.Types = []tollgate.TransactionType{tollgate.TransactionType(t)}
	}
	return q
}

// parseSearch reads the filters that payments, transactions and payouts have in
// common.
func parseSearch(r *input.Query, statuses []string) ledger.TransactionQuery {
	return ledger.TransactionQuery{
		Statuses: r.Choices("status", statuses),
		Payee:    r.Payee("payee"), Currency: r.Currency("currency"), Reference: r.Text("reference", maxReference),
		CreatedAfter: r.Instant("created_after"), CreatedBefore: r.Instant("created_before"), Accounts: r.IDs("merchant_account_id"),
	}
}

// covered restricts a listing to the accounts of the grant: none named means
// all of them, and naming another is refused.
func (c *call) covered(named []string) ([]string, error) {
	if len(named) == 0 {
		return c.grant.MerchantAccountIDs, nil
	}
	c.target = tollgate.AuditTarget{Type: "merchant_account", ID: named[0]}
	if !c.grant.Covers(named[0]) {
		return nil, accountForbidden()
	}
	return named, nil
}

// getTicket shows a payment's fee lines, its decision and its events (spec §2).
func (s *Server) getTicket(c *call) (*answer, error) {
	t, err := c.store.Ticket(c.ctx, c.caller(http.StatusOK), c.pathID())
	if err != nil {
		return nil, err
	}
	if !c.grant.Covers(t.MerchantAccountID) {
		return nil, accountForbidden()
	}
	return c.tagged(tagOf(t), func() (*answer, error) { return object(t) })
}
