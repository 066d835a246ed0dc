package handlers

import (
	"maps"
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
	"tollgate/rediskv/exports"
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

func parseExportRequest(f *input.Fields) exportRequest {
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
		Outcome: q.Choice("outcome", "", auditOutcomes...), Statuses: q.Choices("status", r.Dataset.Kind().Statuses),
		Accounts: q.IDs("merchant_account_id"),
	}
	switch r.Dataset {
	case tollgate.DatasetTransactions:
		f.Types = q.Choices("type", tollgate.TransactionTypes)
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
	if r.Dataset.Kind().Whole {
		err = c.coversAudit()
	}
	if err == nil {
		f.Accounts, err = c.covered(f.Accounts)
	}
	return f, err
}

// coversAudit refuses the audit record to a grant of some accounts.
func (c *call) coversAudit() error {
	if len(c.grant.MerchantAccountIDs) == 0 {
		return nil
	}
	return problem.New(tollgate.CodeMerchantAccountForbidden, "The audit record is about all merchant accounts; the grant does not cover all.")
}

// createExport stores a job that makes a file of everything that is committed
// by now (interface §10). What the grant covers now is what the file has.
func (s *Server) createExport(c *call, r exportRequest) (*answer, error) {
	return s.command(c, "exports.create", r, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		filter, err := r.filter(c)
		if err != nil {
			return rediskv.Result{}, err
		}
		caller := c.caller(http.StatusAccepted)
		facts, err := s.store.ExportFacts(c.ctx, c.org, r.Dataset, filter)
		if err != nil {
			return rediskv.Result{}, err
		}
		change, err := tollgate.CreateExport(s.store.NewID, s.store.Origin(caller), facts.Room, tollgate.NewExport{Dataset: r.Dataset, Format: r.Format, Filters: r.Filters})
		if err != nil {
			return rediskv.Result{}, err
		}
		ans, err := reply(http.StatusAccepted, "/v1/exports/"+change.Export.ID, change.Export, filter.Accounts)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitExport(c.ctx, caller, idem, facts, change, ans)
	}, r.earlier()...)
}

// export reads the export that a path names. To a grant that does not cover
// all that is in it, it is not there.
func (s *Server) export(c *call) (*exports.StoredExport, error) {
	e, err := c.store.Export(c.ctx, c.caller(http.StatusOK), c.pathID())
	if err != nil {
		return nil, err
	}
	if !c.reaches(e.Filter.Accounts) {
		return nil, tollgate.NotFound()
	}
	s.addFile(&e.Export)
	return e, nil
}

// addFile says where the file of an export is.
func (s *Server) addFile(e *tollgate.Export) {
	if e.Result != nil {
		e.Result.URL = s.oauth.Issuer.Name + "/v1/exports/" + e.ID + "/file"
	}
}

// listExports lists the exports that the grant covers, the newest first.
func (s *Server) listExports(c *call) (*answer, error) {
	p, err := readPage[string](s, c, "desc", nil)
	if err != nil {
		return nil, err
	}
	exports, next := []tollgate.Export{}, p.Position
	for {
		rows, more, err := c.store.Exports(c.ctx, c.caller(http.StatusOK), next, p.Limit)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			e := &rows[i]
			if e.Object == "" || (e.Damaged && len(c.grant.MerchantAccountIDs) > 0) || (!e.Damaged && !c.reaches(e.Filter.Accounts)) { // its record has expired, or is none of the grant's
				next = e.ID
				continue
			}
			if len(exports) == p.Limit {
				return pageOf(p, exports, true, next)
			}
			s.addFile(&e.Export)
			exports, next = append(exports, e.Export), e.ID
		}
		if !more {
			return pageOf(p, exports, false, next)
		}
	}
}

func (s *Server) getExport(c *call) (*answer, error) {
	e, err := s.export(c)
	if err != nil {
		return nil, err
	}
	a, err := object(e.Export)
	if err == nil && !e.Status.Ended() {
		a.retryAfter = "1"
	}
	return a, err
}

// deleteExport cancels an export that is not done, and drops the file of one that
// is. A second time it changes nothing, so it needs no Idempotency-Key.
func (s *Server) deleteExport(c *call) (*answer, error) {
	return rediskv.Retried(func() (*answer, error) {
		e, err := s.export(c)
		if err != nil {
			return nil, err
		}
		caller := c.caller(http.StatusOK)
		change, err := tollgate.DeleteExport(s.store.Origin(caller), e.Export)
		if err != nil {
			return nil, err
		}
		if change == nil { // whoever ended it may have died before its file was gone
			if err := s.store.RemoveExportFile(c.ctx, c.org, e.ID); err != nil {
				return nil, err
			}
			return object(e.Export)
		}
		if err := s.store.EndExport(c.ctx, caller, e, change); err != nil {
			return nil, err
		}
		return object(change.Export)
	})
}
