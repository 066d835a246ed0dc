package tollgate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

func TestCreateExport(t *testing.T) {
	const most = 1 << 20
	for name, test := range map[string]struct {
		room    tollgate.ExportRoom
		refused string
	}{
		"the first":             {tollgate.ExportRoom{Most: most}, "<nil>"},
		"room for one":          {tollgate.ExportRoom{Unfinished: tollgate.MaxExports - 1, Bytes: most - 1, Most: most}, "<nil>"},
		"too many":              {tollgate.ExportRoom{Unfinished: tollgate.MaxExports, Most: most}, "quota_exceeded exports"},
		"full":                  {tollgate.ExportRoom{Bytes: most, Most: most}, "rate_limited"},
		"too many, and is full": {tollgate.ExportRoom{Unfinished: tollgate.MaxExports + 1, Bytes: most + 1, Most: most}, "quota_exceeded exports"},
	} {
		n := tollgate.NewExport{Dataset: tollgate.DatasetEvents, Format: tollgate.FormatCSV, Filters: map[string]string{"types": "rule.*"}}
		ch, err := tollgate.CreateExport(testMint, testOrigin, test.room, n)
		if codeOf(err) != test.refused {
			t.Errorf("%s: %v, want %s", name, err, test.refused)
		}
		if err != nil {
			continue
		}
		e := ch.Export
		if e.Status != tollgate.ExportStatusPending || e.CreatedAt != testNow || e.ID != testMint(tollgate.PrefixExport) || e.Dataset != n.Dataset || e.Filters["types"] != "rule.*" {
			t.Errorf("%s: %+v", name, e)
		}
		if ch.Action != "export.create" || ch.Outcome != "succeeded" || ch.From != "" || ch.Event.Type != tollgate.ExportCreated {
			t.Errorf("%s: %+v", name, ch)
		}
	}
}

// exportIn is an export in a state.
func exportIn(status tollgate.ExportStatus) tollgate.Export {
	e := tollgate.Export{ID: "exp_1", Dataset: tollgate.DatasetAudit, Status: status, Preview: []jsontext.Value{jsontext.Value("{}")}}
	if status.Ended() {
		e.FinishedAt = testNow.Add(-time.Hour)
	}
	if status == tollgate.ExportStatusSucceeded || status == tollgate.ExportStatusExpired {
		e.Result = &tollgate.ExportResult{Rows: 3, Bytes: 9, ExpiresAt: testNow.Add(time.Hour)}
	}
	return e
}

// What becomes of an export in each state when it is deleted, and whether its
// file can be read.
func TestExportStates(t *testing.T) {
	for status, test := range map[tollgate.ExportStatus]struct{ deleted, file string }{
		tollgate.ExportStatusPending:   {"export.cancel canceled", "export_state_invalid"},
		tollgate.ExportStatusRunning:   {"export.cancel canceled", "export_state_invalid"},
		tollgate.ExportStatusSucceeded: {"export.delete expired", "<nil>"},
		tollgate.ExportStatusFailed:    {"export_state_invalid", "export_state_invalid"},
		tollgate.ExportStatusCanceled:  {"nothing", "export_state_invalid"},
		tollgate.ExportStatusExpired:   {"nothing", "export_expired"},
	} {
		was := exportIn(status)
		ch, err := tollgate.DeleteExport(testOrigin, was)
		got := codeOf(err)
		if err == nil {
			got = "nothing"
		}
		if ch != nil {
			got = fmt.Sprint(ch.Action, " ", ch.Export.Status)
			if ch.From != status || ch.Outcome != "succeeded" || ch.Event != nil || ch.Export.Preview != nil {
				t.Errorf("%s: %+v", status, ch)
			}
			if status == tollgate.ExportStatusSucceeded && (ch.Export.Result.ExpiresAt != testNow || ch.Export.FinishedAt != was.FinishedAt || was.Result.ExpiresAt == testNow) {
				t.Errorf("%s: %+v", status, ch.Export)
			}
			if status != tollgate.ExportStatusSucceeded && ch.Export.FinishedAt != testNow {
				t.Errorf("%s: %+v", status, ch.Export)
			}
		}
		if got != test.deleted {
			t.Errorf("%s: %s, want %s", status, got, test.deleted)
		}
		if err := was.HasFile(); codeOf(err) != test.file {
			t.Errorf("the file of one that is %s: %v, want %s", status, err, test.file)
		}
	}
}

func TestEndExport(t *testing.T) {
	was := exportIn(tollgate.ExportStatusRunning)
	ch, err := tollgate.FinishExport(testMint, testOrigin, was, tollgate.ExportResult{Rows: 3, Bytes: 9, SHA256: "ab"})
	if err != nil || ch.Action != "export.end" || ch.Outcome != "succeeded" || ch.From != tollgate.ExportStatusRunning || ch.Event.Type != tollgate.ExportSucceeded {
		t.Errorf("%+v %v", ch, err)
	}
	if e := ch.Export; e.Status != tollgate.ExportStatusSucceeded || e.FinishedAt != testNow || e.Result.Rows != 3 || e.Result.ExpiresAt != testNow.Add(tollgate.ExportLifetime) || len(e.Preview) != 1 {
		t.Errorf("%+v", e)
	}
	ch, err = tollgate.FailExport(testMint, testOrigin, was, tollgate.ExportError{Code: tollgate.CodeInternal, Message: "no"})
	if err != nil || ch.Action != "export.end" || ch.Outcome != "refused" || ch.Event.Type != tollgate.ExportFailedEvent {
		t.Errorf("%+v %v", ch, err)
	}
	if e := ch.Export; e.Status != tollgate.ExportStatusFailed || e.FinishedAt != testNow || e.Error.Message != "no" || e.Result != nil {
		t.Errorf("%+v", e)
	}
	for try, goesOn := range map[int64]bool{1: true, 5: true, 6: false} {
		if fault := tollgate.ExportBrokenOff(try); (fault == nil) != goesOn {
			t.Errorf("try %d: %+v", try, fault)
		}
	}
}
