package handlers_test

import "strings"

// filters is the kind of an export's filters, those of transactions.
const filters kindOf = "the filters of an export"

// exportOperations are those of exports: one that has succeeded, and one that
// waits.
func (w *world) exportOperations() []*operation {
	w.t.Helper()
	make := func() string {
		return w.get(w.want(w.call("POST", "/v1/exports/preview", `{"dataset":"transactions"}`), 202, ""), "id")
	}
	done := make()
	check(w.t, w.exports())
	waits := make()
	body := []member{
		{"dataset", `"transactions"`, choice, true},
		{"format", `"ndjson"`, choice, false},
		{"filters", `{"status":["captured","pending"],"payee":"shop.example","created_after":"2026-03-02T08:00:00Z"}`, filters, false},
	}
	return []*operation{
		{id: "createExport", method: "POST", path: "/v1/exports/preview", media: "application/json", body: body, key: "accepted"},
		{id: "listExports", method: "GET", path: "/v1/exports", query: []queryParameter{
			{"limit", "10", []string{"0", "101", "ten"}},
			{"cursor", "", []string{"AAAA", "null"}},
		}},
		{id: "readExport", method: "GET", path: "/v1/exports/" + done, pathID: done},
		{id: "readExportFile", method: "GET", path: "/v1/exports/" + done + "/file", pathID: done},
		{id: "deleteExport", method: "DELETE", path: "/v1/exports/" + waits, pathID: waits},
	}
}

// wrongForExports are wrong filters; each names the parameter at fault.
func wrongForExports(kind kindOf) (list []wrongValue) {
	if kind != filters {
		return nil
	}
	for name, raws := range map[string][]string{
		"status":              {`""`, `"nonsense"`, `"captured,"`, `"Captured"`, "1", "true", "{}", "[]", `["captured",1]`, `["captured",null]`, `["captured",""]`, `[["captured"]]`, `"captured\u0000"`},
		"type":                {`"nonsense"`, `["fee","FEE"]`, `"fee, capture"`},
		"merchant_account_id": {`"a-b"`, `"../x"`, `["ma_x"]`, `""`, "7"},
		"payment_id":          {`"a-b"`, `"pay_x\u0000"`, `{"a":1}`},
		"payout_id":           {`"a b"`},
		"payee":               {`"two words"`, `"ü.example"`, `["a.example","b.example"]`},
		"currency":            {`"eur"`, `"EUR,USD"`, `"XXX"`},
		"reference":           {quotedJSON(strings.Repeat("r", 65)), `"a\nb"`},
		"created_after":       {`"yesterday"`, `"2026-03-02"`, `"2026-02-30T09:00:00Z"`, "1772442000"},
		"created_before":      {`"1969-12-31T23:59:59Z"`, `"20260-01-01T00:00:00Z"`},
	} {
		for _, raw := range raws {
			list = append(list, wrongValue{`{"` + name + `":` + raw + `}`, 400, "parameter_invalid", name})
		}
	}
	for _, name := range []string{"types", "object_id", "outcome", "order", "limit", "cursor", "filters", "merchant_account_ids", "created_after "} {
		list = append(list, wrongValue{`{"` + name + `":"1"}`, 400, "parameter_unknown", name})
	}
	return list
}
