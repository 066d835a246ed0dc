package handlers

import (
	"maps"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
)

// exportLists are the filters that take several words.
var exportLists = []string{"status", "type", "types"}

// exportRequest is the body of POST /v1/exports/preview. Filters are in the
// one spelling that lists use.
type exportRequest struct {
	Dataset tollgate.Dataset `json:"dataset"`
	Format  string           `json:"format"`
	Filters input.Values     `json:"filters"`

	payee   string // the filter's text as earlier releases kept it
	selects tollgate.ExportFilter
}

func readExportRequest(f *input.Fields) exportRequest {
	r := exportRequest{
		Dataset: tollgate.Dataset(f.Choice("dataset", "", tollgate.Datasets...)),
		Format:  f.Choice("format", tollgate.FormatCSV, tollgate.FormatCSV, tollgate.FormatNDJSON),
	}
	r.Filters = f.Filters("filters", r.Dataset.Kind().Filters, exportLists, func(q *input.Query) {
		r.payee, _ = tollgate.EarlierPayee(q.Values["payee"])
		r.selects = r.read(q)
	})
	return r
}

// earlier is the request as earlier releases normalized it, where that differs.
func (r exportRequest) earlier() []any {
	if r.payee == "" || r.payee == r.Filters["payee"] {
		return nil
	}
	r.Filters = maps.Clone(r.Filters)
	r.Filters["payee"] = r.payee
	return []any{r}
}

// read reads the filters by the same rules as the lists.
func (r *exportRequest) read(q *input.Query) tollgate.ExportFilter {
	f := tollgate.ExportFilter{
		PaymentID: q.ID("payment_id"), PayoutID: q.ID("payout_id"), ObjectID: q.ID("object_id"), Payee: q.Payee("payee"), Currency: q.Currency("currency"),
		Reference: q.Text("reference", maxReference), CreatedAfter: q.Instant("created_after"), CreatedBefore: q.Instant("created_before"),
		Outcome: q.Choice("outcome", "", "succeeded", "refused", "denied"), Statuses: q.Choices("status", r.Dataset.Kind().Statuses),
	}
	if account := q.ID("merchant_account_id"); account != "" {
		f.Accounts = []string{account}
	}
	switch r.Dataset {
	case tollgate.DatasetTransactions:
		f.Types = q.Choices("type", transactionTypes)
	case tollgate.DatasetEvents:
		f.Types = q.EventTypes()
	case tollgate.DatasetAudit:
		f.Types = q.Words("types")
	}
	return f
}

// filter is what the request selects of what the grant covers. The audit
// record is about the whole organization, and so is not for a grant of some
// accounts.
func (r *exportRequest) filter(c *call) (tollgate.ExportFilter, error) {
	f := r.selects
	var err error
	if r.Dataset.Kind().Whole && len(c.grant.MerchantAccountIDs) > 0 {
		return f, problem.New(tollgate.CodeMerchantAccountForbidden, "The audit record is about all merchant accounts; the grant does not cover all.")
	}
	f.Accounts, err = c.covered(f.Accounts)
	return f, err
}
