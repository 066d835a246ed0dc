package handlers

import (
	"maps"

	"tollgate"
	"tollgate/handlers/problem"
)

// exportLists are the filters that take several words.
var exportLists = []string{"status", "type", "types"}

// exportRequest is the body of POST /v1/exports/preview. Filters are in the
// one spelling that lists use.
type exportRequest struct {
	Dataset tollgate.Dataset `json:"dataset"`
	Format  string           `json:"format"`
	Filters values           `json:"filters"`

	payee   string // the filter's text as earlier releases kept it
	selects tollgate.ExportFilter
}

func readExportRequest(f *fields) exportRequest {
	r := exportRequest{
		Dataset: tollgate.Dataset(f.choice("dataset", "", tollgate.Datasets...)),
		Format:  f.choice("format", tollgate.FormatCSV, tollgate.FormatCSV, tollgate.FormatNDJSON),
	}
	r.Filters = f.filters("filters", r.Dataset.Kind().Filters, exportLists, func(q *queryReader) {
		r.payee, _ = tollgate.EarlierPayee(q.values["payee"])
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
func (r *exportRequest) read(q *queryReader) tollgate.ExportFilter {
	f := tollgate.ExportFilter{
		PaymentID: q.id("payment_id"), PayoutID: q.id("payout_id"), ObjectID: q.id("object_id"), Payee: q.payee("payee"), Currency: q.currency("currency"),
		Reference: q.text("reference", maxReference), CreatedAfter: q.instant("created_after"), CreatedBefore: q.instant("created_before"),
		Outcome: q.choice("outcome", "", "succeeded", "refused", "denied"), Statuses: q.choices("status", r.Dataset.Kind().Statuses),
	}
	if account := q.id("merchant_account_id"); account != "" {
		f.Accounts = []string{account}
	}
	switch r.Dataset {
	case tollgate.DatasetTransactions:
		f.Types = q.choices("type", transactionTypes)
	case tollgate.DatasetEvents:
		f.Types = q.eventTypes()
	case tollgate.DatasetAudit:
		f.Types = q.words("types")
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
