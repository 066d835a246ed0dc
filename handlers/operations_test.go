package handlers_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate/handlers/tlog"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/history"
)

// operation is a request that works, to be spoilt in one place.
type operation struct {
	world        *world
	id           string // of the OpenAPI document
	method, path string
	pathID       string // the identifier in the path
	scoped       bool   // needs a token
	query        []queryParameter
	media        string // of the body; "" for none
	optional     bool   // no body will do
	prefix       string // of the names of body parameters
	body         []member
	around       string // what stands around the body: "%s" in it
	key          string // Idempotency-Key: "", accepted or required
	form         string
	limit        int // of the body; 0: 64 KiB
}

type queryParameter struct {
	name, good string
	wrong      []string // percent-encoded
}

// member is a parameter of a body.
type member struct {
	name, raw string // JSON
	kind      kindOf
	required  bool
}

// kindOf decides what is wrong for a parameter.
type kindOf string

const (
	identifier kindOf = "an identifier"
	amount     kindOf = "an amount"
	currency   kindOf = "a currency"
	payee      kindOf = "a payee"
	choice     kindOf = "one of several words"
	flag       kindOf = "true or false"
	labels     kindOf = "an object of strings"
	text64     kindOf = "a text of 64 characters"
	text255    kindOf = "a text of 255 characters"
	duration   kindOf = "a duration"
	instant    kindOf = "a time that has not come"
)

// operations lists all of the document's, on objects that exist.
func (w *world) operations() []*operation {
	w.t.Helper()
	w.sealed()
	pay := func(key, amount string) string {
		body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":%q,"currency":"EUR","payee":"shop.example"}`, w.vars["eur"], amount)
		return w.get(w.want(w.pay(key, body), 201, ""), "id")
	}
	captured, canceled, reviewed := pay("captured", "10.00"), pay("canceled", "10.00"), pay("reviewed", "2000.00")
	refunded := w.get(w.want(w.pay("refunded", fmt.Sprintf(payAtOnce, w.vars["eur"])), 201, ""), "id")
	refund := ""
	for _, key := range []string{"refunded-1", "refunded-2"} {
		refund = w.get(w.want(w.call("POST", "/v1/payments/"+refunded+"/refunds", `{"amount":"1.00"}`, "Idempotency-Key", key), 201, ""), "id")
	}
	ids := []queryParameter{
		{"merchant_account_id", w.vars["eur"], []string{"a-b", "%20", "a%2Cb"}},
	}
	page := []queryParameter{
		{"order", "asc", []string{"up", "ASC", "asc%20", "asc,desc"}},
		{"limit", "10", []string{"0", "101", "-1", "1.0", "%2B1", "1e1", "0x1", "ten", "01", "99999999999999999999", "%D9%A1"}},
		{"cursor", "", []string{"AAAA", "a%20b", "%3D%3D", "null", "0", "%2Fw"}},
	}
	times := []string{"yesterday", "2026-03-02", "2026-03-02T09:00:00", "2026-02-30T09:00:00Z", "2026-03-02T25:00:00Z", "1772442000", "1969-12-31T23:59:59Z", "20260-01-01T00:00:00Z", "2026-03-02t09%3A00%3A00"}
	payees := []queryParameter{{"payee", "shop.example", []string{"two%20words", "%C3%BC.example"}}}
	transactions := slices.Concat(ids, payees, []queryParameter{
		{"status", "captured", []string{"nonsense", "captured,", ",captured", "captured,%20pending", "Captured", "captured%3Bpending"}},
		{"type", "fee", []string{"nonsense", "fee,capture", "FEE"}},
		{"payment_id", captured, []string{"a-b", "%22"}},
		{"payout_id", "po_1", []string{"a-b", "%22"}},
		{"currency", "EUR", []string{"eur", "EURO", "XXX", "EUR,USD", "978"}},
		{"reference", "order-1", nil},
		{"created_after", "2026-03-02T09:00:00Z", times},
		{"created_before", "2026-03-02T09:00:00Z", times},
	}, page)
	payments := slices.DeleteFunc(slices.Clone(transactions), func(q queryParameter) bool {
		return slices.Contains([]string{"type", "payment_id", "payout_id"}, q.name)
	})
	events := slices.Concat(ids, []queryParameter{
		{"types", "payment.*", []string{"nonsense", "payment", "*", "payment.*,", "payment.captured,nonsense", "PAYMENT.CAPTURED", "payment.cap*", ".*"}},
		{"object_id", captured, []string{"a-b", "%22"}},
		{"after", "latest", []string{"LATEST", "now", "latest,latest", "0-0", "evt_1", "latest&cursor=AAAA", "latest&order=desc"}},
		{"wait", "0", []string{"-1", "21", "1.5", "1s", "99999999999999999999"}},
	}, page)
	tree := slices.Concat([]queryParameter{{"history_id", "his_01kjpwd6m0nv1xhp2dgay8fxjd", []string{"a-b", "%22"}}}, page[1:])
	quote := []member{
		{"merchant_account_id", quotedJSON(w.vars["eur"]), identifier, false},
		{"amount", `"10.00"`, amount, true},
		{"currency", `"EUR"`, currency, true},
		{"payee", `"shop.example"`, payee, true},
	}
	payment := slices.Concat(quote, []member{
		{"capture_method", `"manual"`, choice, false},
		{"reference", `"order-1"`, text64, false},
		{"description", `"two books"`, text255, false},
		{"metadata", `{"order":"1"}`, labels, false},
	})
	capture := []member{
		{"amount", `"10.00"`, amount, false},
		{"final_capture", "true", flag, false},
		{"reference", `"parcel-1"`, text64, false},
		{"metadata", `{"parcel":"1"}`, labels, false},
	}
	form := url.Values{}
	for name, values := range tokenForm(w.assertion("kiosk")) {
		form[name] = values
	}
	own := func(scope string) string {
		return ownTokenForm(w.assertion("kiosk"), w.token("kiosk", scope)).Encode()
	}
	const jsonMedia = "application/json"
	list := []*operation{
		{id: "issueToken", method: "POST", path: "/oauth2/token", media: "application/x-www-form-urlencoded", form: form.Encode()},
		{id: "revokeToken", method: "POST", path: "/oauth2/revoke", media: "application/x-www-form-urlencoded", form: own("grants:read")},
		{id: "introspectToken", method: "POST", path: "/oauth2/introspect", media: "application/x-www-form-urlencoded", form: own("accounts:read")},
		{id: "readKeys", method: "GET", path: "/.well-known/jwks.json"},
		{id: "readServerMetadata", method: "GET", path: "/.well-known/oauth-authorization-server"},
		{id: "readOrganization", method: "GET", path: "/v1/organizations/", pathID: w.vars["org"]},
		{id: "readLegalEntity", method: "GET", path: "/v1/legal-entities/", pathID: w.vars["entity"]},
		{id: "readMerchantAccount", method: "GET", path: "/v1/merchant-accounts/", pathID: w.vars["eur"]},
		{id: "listMerchantAccounts", method: "GET", path: "/v1/merchant-accounts", query: slices.Clone(page[1:])},
		{id: "listPerimeters", method: "GET", path: "/v1/perimeters", query: slices.Concat(ids, slices.Clone(page[1:]), payees)},
		{id: "readPerimeter", method: "GET", path: "/v1/perimeters/", pathID: w.vars["eur_perimeter"], query: slices.Concat(ids, payees, []queryParameter{
			{"version", "1", []string{"0", "-1", "one", "1.0", "01"}},
		})},
		{id: "readGrant", method: "GET", path: "/v1/grants/", pathID: w.vars["grant_all"]},
		{id: "createQuote", method: "POST", path: "/v1/quotes", media: jsonMedia, body: quote},
		{id: "createQuote", method: "POST", path: "/v1/quotes", media: jsonMedia, body: quote, prefix: "input.", around: `{"tool":"quote_ticket","input":%s}`},
		{id: "createPayment", method: "POST", path: "/v1/payments", media: jsonMedia, body: payment, key: "required"},
		{id: "listPayments", method: "GET", path: "/v1/payments", query: payments},
		{id: "readPayment", method: "GET", path: "/v1/payments/", pathID: captured},
		{id: "capturePayment", method: "POST", path: "/v1/payments/", pathID: captured, media: jsonMedia, optional: true, body: capture, key: "accepted"},
		{id: "cancelPayment", method: "POST", path: "/v1/payments/", pathID: canceled, media: jsonMedia, optional: true, body: []member{{"reason", `"changed"`, text255, false}}, key: "accepted"},
		{id: "reviewPayment", method: "POST", path: "/v1/payments/", pathID: reviewed, media: jsonMedia, body: []member{
			{"decision", `"approve"`, choice, true},
			{"note", `"fine"`, text255, false},
		}, key: "accepted"},
		{id: "refundPayment", method: "POST", path: "/v1/payments/", pathID: refunded, media: jsonMedia, optional: true, body: []member{
			{"amount", `"1.00"`, amount, false},
			{"reason", `"broken"`, text255, false},
		}, key: "required"},
		{id: "listRefunds", method: "GET", path: "/v1/payments/", pathID: refunded, query: slices.Clone(page[1:])},
		{id: "readRefund", method: "GET", path: "/v1/refunds/", pathID: refund},
		{id: "listTransactions", method: "GET", path: "/v1/transactions", query: transactions},
		{id: "readTicket", method: "GET", path: "/v1/tickets/", pathID: "tkt_" + captured[len("pay_"):]},
		{id: "listEvents", method: "GET", path: "/v1/events", query: events},
		{id: "listAuditEntries", method: "GET", path: "/v1/audit", query: slices.Concat([]queryParameter{
			{"type", "payment.*,access.denied", []string{"*", "payment.*,", "Payment", "payment-create", ".*", "payment.*.create"}},
			{"actor", w.vars["client_shop"], []string{"a-b", "%22"}},
			{"target", captured, []string{"a-b", "%22"}},
			{"outcome", "succeeded", []string{"nonsense", "succeeded,denied", "DENIED", ""}},
			{"created_after", "2026-03-02T09:00:00Z", times},
			{"created_before", "2026-03-02T09:00:00Z", times},
		}, page[1:])},
		{id: "listAuditCheckpoints", method: "GET", path: "/v1/audit/checkpoints", query: tree},
		{id: "listAuditLeaves", method: "GET", path: "/v1/audit/leaves", query: tree},
		{id: "readAuditProof", method: "GET", path: "/v1/audit/proofs/", pathID: w.anEntry()},
		{id: "readEvent", method: "GET", path: "/v1/events/", pathID: w.anEvent()},
		{id: "readClock", method: "GET", path: "/v1/sandbox/clock"},
		{id: "moveClock", method: "POST", path: "/v1/sandbox/clock", media: jsonMedia, body: []member{{"to", `"2026-03-02T10:00:00Z"`, instant, false}}},
		{id: "moveClock", method: "POST", path: "/v1/sandbox/clock", media: jsonMedia, body: []member{{"advance", `"1h"`, duration, false}}},
		{id: "readOpenAPI", method: "GET", path: "/openapi.json"},
		{id: "readHealth", method: "GET", path: "/healthz"},
		{id: "readReadiness", method: "GET", path: "/readyz", query: []queryParameter{{"for", "quotes", []string{"tea", "", "Quotes"}}}},
	}
	list = append(list, w.payoutOperations(ids, page)...)
	list = append(list, w.accessOperations(slices.Clone(page[1:]))...)
	list = append(list, w.webhookOperations()...)
	list = append(list, w.exportOperations()...)
	list = append(list, w.cutoffOperations()...)
	list = append(list, w.ruleOperations()...)
	for _, o := range list {
		o.world, o.scoped = w, strings.HasPrefix(o.path, "/v1/")
		if !strings.HasPrefix(o.path, "/v1/webhooks") && !strings.HasPrefix(o.path, "/v1/exports") && !strings.HasPrefix(o.path, "/v1/payouts") &&
			!strings.HasPrefix(o.path, "/v1/clients") && !strings.HasSuffix(o.path, "/revoke") && !strings.HasPrefix(o.path, "/v1/rule") && !strings.HasPrefix(o.path, "/v1/shadow") { // whose paths are whole
			o.path += o.pathID
		}
		o.path += map[string]string{"capturePayment": "/captures", "cancelPayment": "/cancel", "reviewPayment": "/reviews", "refundPayment": "/refunds", "listRefunds": "/refunds"}[o.id]
		for i := range o.query {
			if o.query[i].name == "cursor" {
				o.query[i].good = w.get(w.call("GET", o.path+"?limit=1", ""), "next_cursor")
			}
		}
	}
	return list
}

const payAtOnce = `{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example","capture_method":"automatic"}`

// anEvent is the id of an event of the log.
func (w *world) anEvent() string { return w.first("/v1/events?limit=1") }

// sealed has two checkpoints of the audit record made, as a worker does; what their root
// is says nothing here.
func (w *world) sealed() {
	w.t.Helper()
	org, leaves := w.vars["org"], []tlog.Hash(nil)
	for range 2 {
		before, err := w.store.AuditTrees(w.t.Context(), org)
		must(w.t, 0, err)
		found, err := w.store.Unsealed(w.t.Context(), org, before.Until(), 1)
		must(w.t, 0, err)
		now, err := w.store.HistoryFor(w.t.Context(), org)
		must(w.t, 0, err)
		after := before.Clone()
		if after.Last() == nil {
			after.List = append(after.List, audittree.Tree{HistoryID: now.ID, After: audittree.Beginning, First: 1})
		}
		leaves = append(leaves, tlog.LeafHash(audittree.Text(found[0])))
		last := after.Last()
		last.Size, last.Until = last.Size+1, found[0].ID
		hash := strings.Repeat("A", 43) + "="
		last.Last = audittree.Checkpoint{
			Object: "audit_checkpoint", HistoryID: now.ID, Number: last.Size, Size: last.Size, Root: hash, Key: "key", Note: "note", CreatedAt: w.store.Now(),
		}
		must(w.t, 0, w.store.SealAudit(history.Within(w.t.Context(), now.ID), org, before, after, []audittree.Tile{{Hashes: tlog.Join(leaves)}}))
	}
}

func (w *world) anEntry() string { return w.first("/v1/audit?limit=1") }

// first is the id of the first object of a list.
func (w *world) first(path string) string {
	w.t.Helper()
	data, _ := w.want(w.call("GET", path, ""), 200, "").body["data"].([]any)
	event, _ := data[0].(map[string]any)
	id, _ := event["id"].(string)
	return id
}

func quotedJSON(s string) string { return `"` + s + `"` }

// text is the body with some members replaced by what stands for them in
// other: any text, or nothing at all for "".
func (o *operation) text(other map[string]string) string {
	if o.form != "" {
		return o.form
	}
	if o.media == "" {
		return ""
	}
	var parts []string
	for _, m := range o.body {
		part, replaced := other[m.name]
		if !replaced {
			part = quotedJSON(m.name) + ":" + m.raw
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	return o.wrap("{" + strings.Join(parts, ",") + "}")
}

func (o *operation) wrap(object string) string {
	if o.around == "" {
		return object
	}
	return fmt.Sprintf(o.around, object)
}

func (o *operation) headers() []string {
	var list []string
	if o.key != "" {
		list = append(list, "Idempotency-Key", "bad-input")
	}
	if o.media != "" {
		list = append(list, "Content-Type", o.media)
	}
	if !o.scoped {
		list = append(list, "Authorization", "")
	}
	return list
}

// covered holds the operations and their parameters to the document, so that
// none is forgotten when one is added.
func covered(t *testing.T, operations []*operation) {
	t.Helper()
	text, err := os.ReadFile("openapi.json")
	var doc map[string]any
	check(t, json.Unmarshal(must(t, text, err), &doc))
	at := func(v any, path ...string) any {
		for _, name := range path {
			m, _ := v.(map[string]any)
			if ref, ok := m["$ref"].(string); ok {
				m, _ = resolve(doc, ref).(map[string]any)
			}
			v = m[name]
		}
		return v
	}
	for path, item := range doc["paths"].(map[string]any) {
		for method, v := range item.(map[string]any) {
			o, _ := v.(map[string]any)
			var want []string
			list, _ := o["parameters"].([]any)
			for _, p := range list {
				if name, in := at(p, "name").(string), at(p, "in").(string); in == "query" {
					want = append(want, name)
				}
			}
			schema := at(o, "requestBody", "content", "application/json", "schema")
			if properties, ok := at(schema, "properties").(map[string]any); ok {
				want = slices.AppendSeq(want, maps.Keys(properties))
			}
			var have []string
			found := false
			for _, tried := range operations {
				if tried.id != o["operationId"] {
					continue
				}
				found = true
				have = nil
				for _, p := range tried.query {
					have = append(have, p.name)
				}
				if tried.id == "createQuote" || tried.id == "moveClock" {
					continue // its body is one of two; both are here
				}
				for _, m := range tried.body {
					have = append(have, m.name)
				}
			}
			if o["operationId"] == "moveClock" {
				want = nil
			}
			slices.Sort(want)
			slices.Sort(have)
			if !found || !slices.Equal(want, have) {
				t.Errorf("%s %s has the parameters %q; tried are %q", method, path, want, have)
			}
		}
	}
}

func resolve(doc any, ref string) any {
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, _ := doc.(map[string]any)
		doc = m[name]
	}
	return doc
}
