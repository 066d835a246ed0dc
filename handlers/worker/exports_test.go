package worker_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/export"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/redistest"
)

// export stores a job and returns its id.
func (s *shop) export(t testing.TB, d tollgate.Dataset, format string, f tollgate.ExportFilter) string {
	t.Helper()
	id, err := s.tryExport(d, format, f)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *shop) tryExport(d tollgate.Dataset, format string, f tollgate.ExportFilter) (string, error) {
	return rediskv.Retried(func() (string, error) {
		facts, err := s.ExportFacts(context.Background(), s.Caller.Organization, d, f)
		if err != nil {
			return "", err
		}
		ch, err := tollgate.CreateExport(s.NewID, s.Origin(s.Caller), facts.Room, tollgate.NewExport{Dataset: d, Format: format})
		if err != nil {
			return "", err
		}
		_, err = s.CommitExport(context.Background(), s.Caller, nil, facts, ch, rediskv.Answer{Status: 202})
		return ch.Export.ID, err
	})
}

func (s *shop) readExport(t testing.TB, id string) *tollgate.Export {
	t.Helper()
	return &s.storedExport(t, id).Export
}

func (s *shop) storedExport(t testing.TB, id string) *exports.StoredExport {
	t.Helper()
	e, err := s.Export(t.Context(), s.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// finished waits for the end of an export.
func (s *shop) finished(t testing.TB, id string) *tollgate.Export {
	t.Helper()
	var e *tollgate.Export
	until(t, "the end of the export", func() bool {
		e = s.readExport(t, id)
		return e.Status.Ended()
	})
	return e
}

// file reads the whole file of an export that must have succeeded, and holds
// it to what the export says of it.
func (s *shop) file(t testing.TB, e *tollgate.Export) []byte {
	t.Helper()
	if e.Status != tollgate.ExportStatusSucceeded {
		t.Fatalf("the export is %s: %+v", e.Status, e.Error)
	}
	f, err := s.ExportFile(t.Context(), s.Caller, e)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if e.Result.SHA256 != hex.EncodeToString(sum[:]) || e.Result.Bytes != int64(len(text)) || e.Result.Rows != e.Progress.RowsDone || *e.Progress.RowsTotal != e.Result.Rows {
		t.Errorf("the file has %d bytes and sha256 %x; the export says %+v, %+v of %d", len(text), sum, e.Result, e.Progress, *e.Progress.RowsTotal)
	}
	return text
}

// works runs a worker until the function that it returns is called, or the
// test ends.
func (s *shop) works(t testing.TB, c worker.Config) (stop func()) {
	t.Helper()
	if c.Store == nil {
		c.Store = s.Store
	}
	if c.Clock == nil {
		c.Clock = s.Clock.Now
	}
	if c.Interval == 0 {
		c.Interval = 10 * time.Millisecond
	}
	w := newWorker(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// listed is what the lists and reads of the API answer, one JSON a row, in the
// order of commit.
func (s *shop) listed(t testing.TB, d tollgate.Dataset) (rows []string) {
	t.Helper()
	add := func(v any, err error) {
		t.Helper()
		text, e := json.Marshal(v, json.Deterministic(true))
		if err != nil || e != nil {
			t.Fatal(err, e)
		}
		rows = append(rows, string(text))
	}
	if d == tollgate.DatasetEvents {
		q := eventlog.EventQuery{Limit: 100}
		for {
			page, next, more, err := s.Events(t.Context(), s.Caller, q)
			for _, e := range page {
				add(e, err)
			}
			if q.After = next; !more {
				return rows
			}
		}
	}
	q := ledger.TransactionQuery{Limit: 100}
	for {
		page, next, more, err := s.Transactions(t.Context(), s.Caller, q)
		for _, x := range page {
			switch {
			case d == tollgate.DatasetTransactions:
				add(x, err)
			case d == tollgate.DatasetPayouts && x.Type == tollgate.TransactionPayout:
				add(x, err)
			case d == tollgate.DatasetPayments && x.Type == tollgate.TransactionAuthorization:
				p, _, err := s.Payment(t.Context(), s.Caller, *x.PaymentID)
				add(p, err)
			case d == tollgate.DatasetTickets && x.Type == tollgate.TransactionAuthorization:
				add(s.Ticket(t.Context(), s.Caller, *x.TicketID))
			}
		}
		if q.After = next; !more {
			return rows
		}
	}
}

// trade makes payments of every kind.
func (s *shop) trade(t testing.TB, payments int) {
	t.Helper()
	for i := range payments {
		id := s.pay(t, 1000)
		switch i % 4 {
		case 1:
			s.capturePart(t, id, 400)
		case 2:
			s.pay(t, 20_000) // asks for a review
		}
		s.Clock.Advance(time.Minute)
	}
}

// Every dataset, in both formats, is what the lists and reads answer, row by
// row; CSV has the same in its columns.
func TestExports(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	s.trade(t, 130)
	want := map[tollgate.Dataset][]string{}
	for _, d := range []tollgate.Dataset{"transactions", "payments", "tickets", "payouts", "events"} {
		want[d] = s.listed(t, d)
	}
	s.works(t, worker.Config{})
	for _, name := range tollgate.Datasets {
		d := tollgate.Dataset(name)
		if d == tollgate.DatasetEvents {
			want[d] = s.listed(t, d) // exports are events, too, also those of this test
		}
		e := s.finished(t, s.export(t, d, tollgate.FormatNDJSON, tollgate.ExportFilter{}))
		lines := slices.Collect(strings.Lines(string(s.file(t, e))))
		switch d {
		case tollgate.DatasetAudit:
			for i, line := range lines {
				var entry tollgate.AuditEntry
				if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Seq != int64(i+1) || entry.Target.ID == e.ID { // it is younger than its cut
					t.Errorf("entry %d: %v, %v", i+1, entry, err)
				}
			}
			want[d] = lines
		default:
			if got := strings.Join(lines, ""); got != strings.Join(append(want[d], ""), "\n") {
				t.Errorf("%s: %d lines, want %d", d, len(lines), len(want[d]))
			}
		}
		if len(e.Preview) != min(10, len(lines)) || e.StartedAt == 0 || e.FinishedAt == 0 {
			t.Errorf("%s: %+v", d, e)
		}
		for i, row := range e.Preview {
			if string(row) != strings.TrimSuffix(lines[i], "\n") {
				t.Errorf("%s: row %d of the preview is %s, of the file %s", d, i, row, lines[i])
			}
		}
		e = s.finished(t, s.export(t, d, tollgate.FormatCSV, tollgate.ExportFilter{}))
		text := s.file(t, e)
		if bytes.Count(text, []byte("\n")) != bytes.Count(text, []byte("\r\n")) {
			t.Errorf("%s: lines that do not end with CRLF", d)
		}
		records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || !slices.Equal(records[0], export.Columns(d)) {
			t.Fatalf("%s: %v %v", d, records, err)
		}
		if d != tollgate.DatasetAudit && d != tollgate.DatasetEvents && len(records) != len(want[d])+1 {
			t.Fatalf("%s: %d records, want %d", d, len(records), len(want[d])+1)
		}
		for i, line := range want[d] {
			compareRecord(t, d, records[0], records[i+1], line)
		}
	}
}

// compareRecord holds a record of CSV to the JSON of its row.
func compareRecord(t *testing.T, d tollgate.Dataset, columns, record []string, row string) {
	t.Helper()
	var object map[string]jsontext.Value
	if err := json.Unmarshal([]byte(row), &object); err != nil {
		t.Fatal(err)
	}
	flat := map[string]string{}
	for name, value := range object {
		var text *string
		switch {
		case value.Kind() == 'n':
			flat[name] = ""
		case json.Unmarshal(value, &text) == nil:
			flat[name] = *text
		default:
			flat[name] = string(value)
		}
		if value.Kind() == '{' {
			var inner map[string]any
			if err := json.Unmarshal(value, &inner); err != nil {
				t.Fatal(err)
			}
			prefix := name + "_"
			if name == "actor" {
				prefix = ""
			}
			for member, v := range inner {
				flat[prefix+member] = ""
				if v != nil {
					flat[prefix+member] = fmt.Sprint(v)
				}
			}
		}
	}
	for i, name := range columns {
		if want, ok := flat[name]; record[i] != want && !(name == "reason" && !ok && record[i] == "") {
			t.Errorf("%s: %s is %q, not %q", d, name, record[i], want)
		}
	}
}
