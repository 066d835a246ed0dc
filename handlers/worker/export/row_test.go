package export_test

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/worker/export"
	"tollgate/rediskv/exports"
)

// csvOf is a file of rows, header included.
func csvOf(t testing.TB, d tollgate.Dataset, rows ...exports.Row) []byte {
	t.Helper()
	e := &tollgate.Export{Dataset: d, Format: tollgate.FormatCSV}
	file := export.AppendHeader(nil, e)
	for _, r := range rows {
		var err error
		if file, err = export.AppendRow(file, e, r); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// cell is a field of a file's first row, as a reader of CSV finds it.
func cell(t testing.TB, file []byte, column string) string {
	t.Helper()
	records, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records, %v in %q", len(records), err, file)
	}
	return records[1][slices.Index(records[0], column)]
}

func referenced(text string) exports.Row {
	return exports.Row{Value: &tollgate.Transaction{
		ID: "txn_1", Amount: tollgate.Money{Minor: 1000, Currency: "EUR"}, Currency: "EUR", Reference: &text,
	}}
}

func TestGuardedCells(t *testing.T) {
	for text, want := range map[string]string{
		"order-1": "order-1", "": "", "'tis": "'tis", "''": "''", "a=b": "a=b", "{\"a\":1}": "{\"a\":1}", "ü": "ü", "日本": "日本", "😀": "😀", "1-1": "1-1",
		"=1+1": "'=1+1", "+49": "'+49", "-1": "'-1", "@handle": "'@handle", "=": "'=", "\t=1": "'\t=1", "\rx": "'\rx", "\nx": "'\nx",
		"'=1": "''=1", "''=1": "'''=1", " =1": "' =1", "\u00a0=1": "'\u00a0=1", "\u200b=1": "'\u200b=1", "\ufeff@a": "'\ufeff@a",
		"＝1": "'＝1", "＋1": "'＋1", "－1": "'－1", "＠a": "'＠a", "﹦1": "'﹦1", "−1": "'−1", "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0",
		"a,b": "a,b", `say "hi"`: `say "hi"`, "one\ntwo": "one\ntwo", " edge ": " edge ",
	} {
		if got := cell(t, csvOf(t, tollgate.DatasetTransactions, referenced(text)), "reference"); got != strings.ReplaceAll(want, "\r\n", "\n") {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
	// Amounts are not text.
	row := referenced("x")
	row.Value.(*tollgate.Transaction).Amount.Minor = -1
	if got := cell(t, csvOf(t, tollgate.DatasetTransactions, row), "amount"); got != "-0.01" {
		t.Errorf("an amount is %q", got)
	}
}

// Whatever the text, a reader of CSV finds it again, no spreadsheet takes it
// for a formula, and without the guard it is what it was.
func FuzzGuardedCells(f *testing.F) {
	for _, text := range []string{"", "=1+1", "'=1", "a,b", "\"", "\r\n", " -", "\u2028@", "＝", "\xff=", "\ufeff=", "''+"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := csvOf(t, tollgate.DatasetTransactions, referenced(text))
		got := cell(t, file, "reference")
		normal := strings.ReplaceAll(text, "\r\n", "\n") // as readers do within quotes
		if got != normal && got != "'"+normal {
			t.Fatalf("%q is %q", text, got)
		}
		trimmed := strings.TrimLeftFunc(got, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
		if first, _ := utf8.DecodeRuneInString(trimmed); strings.ContainsRune("=+-@＝＋－＠", first) {
			t.Fatalf("%q stays a formula: %q", text, got)
		}
		if !bytes.HasSuffix(file, []byte("\r\n")) {
			t.Fatalf("%q does not end its line", file)
		}
	})
}

// Metadata as large as it can be, in every script, in one cell; JSON on one
// line.
func TestHugeMetadata(t *testing.T) {
	metadata := tollgate.Metadata{}
	for i := range 50 {
		metadata[strings.Repeat(string(rune('a'+i%26)), 1+i%40)+string(rune('A'+i))] = strings.Repeat([]string{"é", "日", "😀", `"`, `\`, ","}[i%6], 500)
	}
	description := "=SUM(A1:A9)\u2028next"
	p := &tollgate.Payment{
		Object: "payment", ID: "pay_1", TicketID: "tkt_1", Amount: tollgate.Money{Minor: 99, Currency: "JPY"}, Currency: "JPY", Payee: "@shop",
		Metadata: metadata, Description: &description,
	}
	row := exports.Row{Value: p}
	file := csvOf(t, tollgate.DatasetPayments, row)
	var back tollgate.Metadata
	if err := json.Unmarshal([]byte(cell(t, file, "metadata")), &back); err != nil || len(back) != 50 {
		t.Fatal(err, len(back))
	}
	for key, value := range metadata {
		if back[key] != value {
			t.Errorf("%s is %q", key, back[key])
		}
	}
	if got := cell(t, file, "description"); got != "'"+description {
		t.Errorf("the description is %q", got)
	}
	e := &tollgate.Export{Dataset: tollgate.DatasetPayments, Format: tollgate.FormatNDJSON}
	line, err := export.AppendRow(export.AppendHeader(nil, e), e, row)
	if err != nil || bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
		t.Errorf("%v: %d lines", err, bytes.Count(line, []byte("\n")))
	}
	want, err := json.Marshal(p, json.Deterministic(true))
	if err != nil || string(want)+"\n" != string(line) {
		t.Errorf("%v: not as the API answers it: %.200s", err, line)
	}
}

// Each dataset has one cell for each of its columns.
func TestColumns(t *testing.T) {
	for d, row := range map[tollgate.Dataset]exports.Row{
		tollgate.DatasetTransactions: {Value: &tollgate.Transaction{}},
		tollgate.DatasetPayouts:      {Value: &tollgate.Transaction{}},
		tollgate.DatasetPayments:     {Value: &tollgate.Payment{}},
		tollgate.DatasetTickets:      {Value: &tollgate.Ticket{}},
		tollgate.DatasetEvents:       {Value: &tollgate.Event{ID: "evt_1", Data: []byte(`{"a":"b"}`)}},
		tollgate.DatasetAudit:        {Value: &tollgate.AuditEntry{ID: "aud_1"}},
	} {
		if got := cell(t, csvOf(t, d, row), export.Columns(d)[0]); strings.ContainsAny(got, ",\"") { // else the reader has complained
			t.Errorf("%s: %q", d, got)
		}
	}
}

// A member of an object stands in a column of its own.
func TestColumnsOfObjects(t *testing.T) {
	for d, c := range map[tollgate.Dataset]struct {
		row  any
		want map[string]string
	}{
		tollgate.DatasetAudit: {&tollgate.AuditEntry{
			ID: "aud_1", Seq: 3, Actor: tollgate.Actor{ClientID: "cli_1", GrantID: "grt_1", KeyID: "=key"},
			Request: tollgate.AuditRequest{ID: "req_1", Method: "GET", Route: "/v1/payments", Status: 200}, Target: tollgate.AuditTarget{Type: "payment", ID: "pay_1"},
		}, map[string]string{
			"id": "aud_1", "seq": "3", "client_id": "cli_1", "grant_id": "grt_1", "kid": "'=key", "request_id": "req_1", "request_method": "GET",
			"request_route": "/v1/payments", "request_status": "200", "target_type": "payment", "target_id": "pay_1",
		}},
		tollgate.DatasetTickets: {&tollgate.Ticket{
			ID: "tkt_1", Decision: tollgate.DecisionReview, EventIDs: []string{"evt_1"},
			Perimeter: tollgate.PerimeterDecision{ID: "per_1", Version: 2, Decision: tollgate.DecisionDeny, Reason: tollgate.ReasonBudgetExhausted},
		}, map[string]string{
			"id": "tkt_1", "decision": "review", "perimeter_id": "per_1", "perimeter_version": "2", "perimeter_decision": "deny",
			"perimeter_reason": "budget_exhausted", "event_ids": `["evt_1"]`, "lines": "[]",
		}},
	} {
		file := csvOf(t, d, exports.Row{Value: c.row})
		for column, want := range c.want {
			if got := cell(t, file, column); got != want {
				t.Errorf("%s: %s is %q, want %q", d, column, got, want)
			}
		}
	}
}
