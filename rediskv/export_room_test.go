package rediskv_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/redistest"
)

// tally is what the organization's files are said to take up, and taken what
// the chunks and previews that are there do.
func (f *fixture) tally(t testing.TB) (tally, taken int64) {
	t.Helper()
	raw := rawClient(t, f.URL)
	var sizes map[string]string
	for _, key := range scanKeys(t, raw, "*:"+f.Caller.Organization+":exports:sizes") {
		sizes = raw.HGetAll(t.Context(), key).Val()
	}
	var sum int64
	for id, text := range sizes {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if id == "all" {
			tally = n
		} else {
			sum += n
		}
	}
	if sum != tally {
		t.Errorf("the files have %v bytes", sizes)
	}
	for _, key := range scanKeys(t, raw, "*:"+f.Caller.Organization+":exp_*") {
		switch {
		case strings.Contains(key, ":c:"):
			taken += raw.StrLen(t.Context(), key).Val()
		case !strings.HasSuffix(key, ":ends"):
			taken += int64(len(raw.HGet(t.Context(), key, "prev").Val()))
		}
	}
	return tally, taken
}

func (f *fixture) newExport(t testing.TB) (tollgate.Export, error) {
	t.Helper()
	return f.createExport(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{})
}

// createExport decides on an export and commits it, as a handler does.
func (f *fixture) createExport(t testing.TB, d tollgate.Dataset, format string, filter tollgate.ExportFilter) (tollgate.Export, error) {
	t.Helper()
	facts, ch, err := f.newExportChange(t, d, format, filter)
	if err != nil {
		return tollgate.Export{}, err
	}
	_, err = f.CommitExport(t.Context(), f.Caller, nil, facts, ch, rediskv.Answer{Status: 202})
	return ch.Export, err
}

func (f *fixture) newExportChange(t testing.TB, d tollgate.Dataset, format string, filter tollgate.ExportFilter) (*exports.ExportFacts, *tollgate.ExportChange, error) {
	t.Helper()
	facts, err := f.ExportFacts(t.Context(), f.Caller.Organization, d, filter)
	if err != nil {
		return nil, nil, err
	}
	ch, err := tollgate.CreateExport(f.NewID, f.Origin(f.Caller), facts.Room, tollgate.NewExport{Dataset: d, Format: format})
	return facts, ch, err
}

// deleteExport cancels an export as it was read, or drops its file.
func (f *fixture) deleteExport(t testing.TB, e *exports.StoredExport) error {
	t.Helper()
	ch, err := tollgate.DeleteExport(f.Origin(f.Caller), e.Export)
	if err != nil {
		return err
	}
	return f.EndExport(t.Context(), f.Caller, e, ch)
}

// finish ends an export whose file is complete.
func (f *fixture) finish(t testing.TB, j *exports.ExportJob) error {
	t.Helper()
	ch, err := tollgate.FinishExport(f.NewID, f.Origin(f.Caller), j.Export, j.File())
	if err != nil {
		return err
	}
	return f.EndJob(t.Context(), j, ch)
}

// The files of an organization take up no more than they may: no export is
// begun beyond it, and none grows beyond it. Room is made by deleting a file, by
// canceling and by time.
func TestExportFilesHaveRoom(t *testing.T) {
	f := newFixture(t)
	f.many(t, 3000)
	e := f.export(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	size, taken := f.tally(t)
	if size != taken || size == 0 {
		t.Fatalf("%d bytes are counted, %d are there", size, taken)
	}
	full := f.with(t, rediskv.Options{ExportBytes: size})
	if _, err := full.newExport(t); code(err) != string(tollgate.CodeRateLimited) {
		t.Errorf("with no room left: %v", err)
	}
	if err := full.deleteExport(t, e); err != nil {
		t.Fatal(err)
	}
	if size, taken := f.tally(t); size != 0 || taken != 0 {
		t.Errorf("after it is deleted %d bytes are counted, %d are there", size, taken)
	}
	now, err := f.Export(t.Context(), f.Caller, e.ID)
	if err != nil || now.Status != tollgate.ExportStatusExpired || len(now.Preview) != 0 || now.Result.SHA256 != e.Result.SHA256 || now.Result.ExpiresAt != f.Now() {
		t.Errorf("%+v, %+v, %v", now, now.Result, err)
	}
	if _, err := f.ExportFile(t.Context(), f.Caller, &now.Export); code(err) != string(tollgate.CodeExportExpired) {
		t.Errorf("its file: %v", err)
	}

	// It fits exactly, and the next one with not a byte more.
	full.export(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	tight := f.with(t, rediskv.Options{ExportBytes: 2*size - 1})
	next, err := tight.newExport(t)
	if err != nil {
		t.Fatal(err)
	}
	var j *exports.ExportJob
	for p := 0; j == nil && p < f.Partitions(); p++ {
		if j, err = tight.NextExport(t.Context(), p, "test", 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	var chunk []byte
	for more := true; more && err == nil; {
		rows, failed := tight.ExportRows(t.Context(), j)
		if failed != nil {
			t.Fatal(failed)
		}
		for _, r := range rows {
			text, failed := r.JSON()
			if failed != nil {
				t.Fatal(failed)
			}
			chunk = append(append(chunk, text...), '\n')
			if failed := j.Pass(r); failed != nil {
				t.Fatal(failed)
			}
			if len(chunk) >= 256<<10 && err == nil {
				err = tight.AppendExport(t.Context(), j, chunk)
				chunk = chunk[:0]
			}
		}
		more = len(rows) > 0
	}
	if err == nil {
		err = tight.AppendExport(t.Context(), j, chunk)
	}
	if code(err) != string(tollgate.CodeRateLimited) {
		t.Errorf("the last chunk of a file that is a byte too large: %v", err)
	}
	if now, taken := f.tally(t); now != taken || now <= size || now >= 2*size {
		t.Errorf("%d bytes are counted, %d are there of files of %d", now, taken, size)
	}
	ch, err := tollgate.FailExport(f.NewID, f.Origin(f.Caller), j.Export, tollgate.ExportError{Code: tollgate.CodeRateLimited, Message: "full"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.EndJob(t.Context(), j, ch); err != nil {
		t.Fatal(err)
	}
	if failed, err := f.Export(t.Context(), f.Caller, next.ID); err != nil || failed.Status != tollgate.ExportStatusFailed {
		t.Errorf("%+v, %v", failed, err)
	}
	if now, taken := f.tally(t); now != size || taken != size {
		t.Errorf("after it has failed %d bytes are counted, %d are there, want %d", now, taken, size)
	}

	f.Clock.Advance(tollgate.ExportLifetime)
	if _, err := full.newExport(t); code(err) != string(tollgate.CodeRateLimited) {
		t.Errorf("while the file may still be there: %v", err)
	}
	f.Clock.Advance(time.Hour)
	last, err := full.newExport(t)
	if err != nil {
		t.Errorf("after its time: %v", err)
	}
	if now, _ := f.tally(t); now != 0 {
		t.Errorf("after its time %d bytes are counted", now)
	}
	waiting, err := f.Export(t.Context(), f.Caller, last.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.deleteExport(t, waiting); err != nil {
		t.Fatal(err)
	}
}

// Of many that delete a file at once one does; what it took up is taken off
// once.
func TestExportDroppedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	kept := f.export(t, tollgate.DatasetTickets, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	want, _ := f.tally(t)
	e := f.export(t, tollgate.DatasetTickets, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	var dropped, conflicts atomic.Int64
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			switch err := f.deleteExport(t, e); {
			case err == nil:
				dropped.Add(1)
			case errors.Is(err, rediskv.ErrConflict):
				conflicts.Add(1)
			default:
				t.Error(err)
			}
			if err := f.RemoveExportFile(t.Context(), f.Caller.Organization, e.ID); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	if dropped.Load() != 1 || conflicts.Load() != 7 {
		t.Errorf("%d deleted it, %d came too late", dropped.Load(), conflicts.Load())
	}
	if got, taken := f.tally(t); got != want || taken != want {
		t.Errorf("%d bytes are counted, %d are there, want %d", got, taken, want)
	}
	f.file(t, kept)
	raw, events := f.raw(t)
	entries, err := raw.XRange(t.Context(), strings.TrimSuffix(events, "events")+"audit", "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	deleted := 0
	for _, entry := range entries {
		if strings.Contains(entry.Values["b"].(string), `"export.delete"`) {
			deleted++
		}
	}
	if deleted != 1 {
		t.Errorf("%d audit entries", deleted)
	}
}

// A process that dies with a file half removed leaves nothing uncounted, and a
// second time removes the rest. A reply that is lost costs nothing.
func TestExportDroppedByHalf(t *testing.T) {
	server := redistest.Single(t)
	f := newFixtureAt(t, server.URL)
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	wire := redistest.Proxy(t, server.Addr)
	dies := false
	through := f.with(t, rediskv.Options{URL: wire.URL, Observe: func(operation string, _ time.Duration, _ error) {
		if dies && operation == "commit" {
			wire.Refuse()
		}
	}})
	first, second := f.export(t, tollgate.DatasetTickets, tollgate.FormatCSV, tollgate.ExportFilter{}), f.export(t, tollgate.DatasetTickets, tollgate.FormatCSV, tollgate.ExportFilter{})
	all, _ := f.tally(t)

	lost := wire.SwallowReply("EVALSHA")
	if err := through.deleteExport(t, first); err != nil {
		t.Fatal(err)
	}
	<-lost
	if now, taken := f.tally(t); now != all/2 || taken != all/2 {
		t.Errorf("after a lost reply %d bytes are counted, %d are there, want %d", now, taken, all/2)
	}

	dies = true
	if err := through.deleteExport(t, second); err != nil {
		t.Fatal(err)
	}
	half, err := f.Export(t.Context(), f.Caller, second.ID)
	if err != nil || half.Status != tollgate.ExportStatusExpired {
		t.Errorf("%+v, %v", half, err)
	}
	if now, taken := f.tally(t); now != all/2 || taken == 0 {
		t.Errorf("with the file by half %d bytes are counted, want %d; %d are there", now, all/2, taken)
	}
	if err := f.RemoveExportFile(t.Context(), f.Caller.Organization, second.ID); err != nil {
		t.Fatal(err)
	}
	if now, taken := f.tally(t); now != 0 || taken != 0 {
		t.Errorf("in the end %d bytes are counted, %d are there", now, taken)
	}
}
