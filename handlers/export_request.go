package handlers

import (
	"maps"
	"slices"
	"strings"
	"unicode"

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
		Filters: make(values),
	}
	object, ok := f.value("filters", false, "an object of strings", '{')
	if !ok {
		return r
	}
	inner := membersOf(object, f.prefix+"filters.", f.faults)
	f.inner = append(f.inner, inner)
	names := r.Dataset.Kind().Filters
	known := names != nil
	if !known { // nothing can be said about them
		names = slices.Collect(maps.Keys(inner.members))
	}
	inner.known = names
	for _, name := range names {
		if !known || !inner.has(name) {
			continue
		}
		if text, ok := inner.filter(name); ok {
			r.Filters[name] = text
		}
	}
	q := &queryReader{values: r.Filters}
	r.payee, _ = tollgate.EarlierPayee(r.Filters["payee"])
	r.selects = r.read(q)
	for _, e := range q.faults {
		e.Param = inner.prefix + e.Param
		f.faults.add(e)
	}
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

// filter is a filter as a query would have it: several words are a list of
// strings, or one string with commas.
func (f *fields) filter(name string) (text string, ok bool) {
	value, several := f.members[name], slices.Contains(exportLists, name)
	switch {
	case value.Kind() == '"':
		text = unquote(value)
	case value.Kind() == '[' && several:
		var items []string
		if items, ok = elementsOf(value); !ok {
			f.faults.add(tollgate.Invalid(f.prefix+name, "%s is a list of strings, or one string with commas.", f.prefix+name))
			return "", false
		}
		text = strings.Join(items, ",")
	default:
		form := map[bool]string{true: "a list of strings, or one string with commas", false: "a string"}[several]
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s is %s.", f.prefix+name, form))
		return "", false
	}
	switch {
	case text == "":
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s is empty; leave it out instead.", f.prefix+name))
		return "", false
	case strings.ContainsFunc(text, unicode.IsControl):
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s must not hold control characters.", f.prefix+name))
		return "", false
	}
	return text, true
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

// words is a comma-separated list of words of letters, dots and underscores.
func (q *queryReader) words(name string) []string {
	text, ok := q.values[name]
	if !ok {
		return nil
	}
	list := strings.Split(text, ",")
	for _, word := range list {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_.") != "" {
			q.faults.add(tollgate.Invalid(name, "%s is a comma-separated list of types such as payment.create.", name))
			return nil
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	q.values[name] = strings.Join(list, ",")
	return list
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
