package server

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/consistency"
)

// What is damaged can be any bytes, and is found in the lines of JSON as well.
func TestFindingsOfAnyBytes(t *testing.T) {
	var out bytes.Buffer
	found := []checks.Finding{
		{Finding: consistency.Found(consistency.FindingIndex, "transaction", "txn_\xb1", "\xb1 is not there"), Organization: "org_1"},
		{Finding: consistency.Found(consistency.FindingIndex, "transaction", "txn_2", "it is not there"), Organization: "org_2"},
	}
	if err := new(checkOptions).printJSON(&cli.App{Stdout: &out}, found, nil, summaryJSON{Object: "summary", Findings: 2}); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s", len(lines), out.String())
	}
	for i, want := range []string{"txn_\ufffd", "txn_2"} {
		var row findingJSON
		if err := json.Unmarshal(lines[i], &row); err != nil || row.ObjectID != want {
			t.Errorf("%s: %v", lines[i], err)
		}
	}
}
