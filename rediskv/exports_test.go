package rediskv_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/redistest"
)

// read is the whole file of an export.
func (f *fixture) file(t testing.TB, e *exports.StoredExport) string {
	t.Helper()
	file, err := f.ExportFile(t.Context(), f.Caller, &e.Export)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(file)
	if err != nil || int64(len(text)) != e.Result.Bytes || file.Size != e.Result.Bytes {
		t.Fatalf("%d of %d bytes: %v", len(text), e.Result.Bytes, err)
	}
	return string(text)
}

// Filters select what the lists select; what they leave out is taken off the
// total.
func TestExportFilters(t *testing.T) {
	f := newFixture(t)
	a := f.Pay(t, eur(1000), tollgate.CaptureManual)
	f.Clock.Advance(time.Hour)
	between := f.Now()
	f.Clock.Advance(time.Hour)
	b := f.Pay(t, tollgate.Money{Minor: 500, Currency: "JPY"}, tollgate.CaptureAutomatic)
	account, other := f.Config.MerchantAccounts[0].ID, f.Config.MerchantAccounts[1].ID
	const transactions, payments, tickets, payouts, events = tollgate.DatasetTransactions, tollgate.DatasetPayments, tollgate.DatasetTickets, tollgate.DatasetPayouts, tollgate.DatasetEvents
	for name, c := range map[string]struct {
		d    tollgate.Dataset
		f    tollgate.ExportFilter
		want int
	}{
		"all":                {transactions, tollgate.ExportFilter{}, 4},
		"status":             {transactions, tollgate.ExportFilter{Statuses: []string{"pending", "authorized"}}, 3},
		"type":               {transactions, tollgate.ExportFilter{Types: []string{"fee", "capture"}}, 2},
		"account":            {transactions, tollgate.ExportFilter{Accounts: []string{account}}, 4},
		"other account":      {transactions, tollgate.ExportFilter{Accounts: []string{other}}, 0},
		"account and status": {transactions, tollgate.ExportFilter{Accounts: []string{other}, Statuses: []string{"pending"}}, 0},
		"payment":            {transactions, tollgate.ExportFilter{PaymentID: b.ID}, 3},
		"no payment":         {transactions, tollgate.ExportFilter{PaymentID: "pay_none"}, 0},
		"not a payment":      {transactions, tollgate.ExportFilter{PaymentID: "x"}, 0},
		"payout":             {transactions, tollgate.ExportFilter{PayoutID: "po_1"}, 0},
		"currency":           {transactions, tollgate.ExportFilter{Currency: "JPY"}, 3},
		"payee":              {transactions, tollgate.ExportFilter{Payee: "shop.example"}, 4},
		"reference":          {transactions, tollgate.ExportFilter{Reference: "none"}, 0},
		"after":              {transactions, tollgate.ExportFilter{CreatedAfter: between}, 3},
		"before":             {transactions, tollgate.ExportFilter{CreatedBefore: between}, 1},
		"payments":           {payments, tollgate.ExportFilter{}, 2},
		"captured payments":  {payments, tollgate.ExportFilter{Statuses: []string{"captured"}}, 1},
		"one payment":        {payments, tollgate.ExportFilter{PaymentID: b.ID}, 1},
		"payments before":    {payments, tollgate.ExportFilter{CreatedBefore: between}, 1},
		"payments elsewhere": {payments, tollgate.ExportFilter{Accounts: []string{other}}, 0},
		"tickets":            {tickets, tollgate.ExportFilter{}, 2},
		"one ticket":         {tickets, tollgate.ExportFilter{PaymentID: a.ID}, 1},
		"tickets of JPY":     {tickets, tollgate.ExportFilter{Currency: "JPY"}, 1},
		"no payouts":         {payouts, tollgate.ExportFilter{}, 0},
		"payment events":     {events, tollgate.ExportFilter{Types: []string{"payment.*"}}, 2},
		"captured events":    {events, tollgate.ExportFilter{Types: []string{"payment.captured"}}, 1},
		"events of b":        {events, tollgate.ExportFilter{ObjectID: b.ID}, 1},
		"account's events":   {events, tollgate.ExportFilter{Accounts: []string{other}}, 1},
		"late events":        {events, tollgate.ExportFilter{Types: []string{"payment.*"}, CreatedAfter: between}, 1},
		"audited payments":   {tollgate.DatasetAudit, tollgate.ExportFilter{Types: []string{"payment.create"}}, 2},
		"audited, early":     {tollgate.DatasetAudit, tollgate.ExportFilter{Types: []string{"payment.create"}, CreatedBefore: between}, 1},
		"nothing refused":    {tollgate.DatasetAudit, tollgate.ExportFilter{Outcome: "refused"}, 0},
	} {
		e := f.export(t, c.d, tollgate.FormatNDJSON, c.f)
		if got := strings.Count(f.file(t, e), "\n"); got != c.want || e.Progress.RowsDone != int64(got) || *e.Progress.RowsTotal != int64(got) || len(e.Preview) != got {
			t.Errorf("%s: %d rows, %+v of %d, want %d", name, got, e.Progress, *e.Progress.RowsTotal, c.want)
		}
	}
}

// A file is read from anywhere in it, over the borders of its chunks.
func TestExportFileSeeks(t *testing.T) {
	f := newFixture(t)
	f.many(t, 3000)
	e := f.export(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	want := []byte(f.file(t, e))
	if len(want) < 600<<10 {
		t.Fatalf("%d bytes are too few for three chunks", len(want))
	}
	file, err := f.ExportFile(t.Context(), f.Caller, &e.Export)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(want))
	for _, at := range []int64{0, 1, size / 2, 256 << 10, 256<<10 + 1, 300 << 10, size - 1, size, 5, size - 70_000} {
		if n, err := file.Seek(at, io.SeekStart); n != at || err != nil {
			t.Fatal(n, err)
		}
		part := make([]byte, min(100_000, size-at))
		if _, err := io.ReadFull(file, part); err != nil || !bytes.Equal(part, want[at:at+int64(len(part))]) {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if n, err := file.Seek(-10, io.SeekEnd); n != size-10 || err != nil {
		t.Error(n, err)
	}
	if n, err := file.Seek(4, io.SeekCurrent); n != size-6 || err != nil {
		t.Error(n, err)
	}
	if _, err := file.Seek(-1, io.SeekStart); err == nil {
		t.Error("before the beginning")
	}
	if n, err := file.Seek(size+5, io.SeekStart); n != size+5 || err != nil {
		t.Error(n, err)
	}
	if _, err := file.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

// The file goes when its time is over, or when Redis has lost a part of it;
// the export says so.
func TestExportExpires(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	e := f.export(t, tollgate.DatasetPayments, tollgate.FormatCSV, tollgate.ExportFilter{})
	raw := rawClient(t, f.URL)
	keys := scanKeys(t, raw, "*:"+e.ID+"*")
	if len(keys) != 3 { // itself, where its chunk ends, its chunk
		t.Fatal(keys)
	}
	for _, key := range keys {
		life, err := raw.PTTL(t.Context(), key).Result()
		least, most := tollgate.ExportLifetime, tollgate.ExportLifetime+2*time.Hour
		if strings.HasSuffix(key, e.ID) {
			least, most = 29*24*time.Hour, 30*24*time.Hour
		}
		if err != nil || life < least || life > most {
			t.Errorf("%s lives for %s, %v", key, life, err)
		}
	}
	f.Clock.Advance(tollgate.ExportLifetime - time.Millisecond)
	if now, err := f.Export(t.Context(), f.Caller, e.ID); err != nil || now.Status != tollgate.ExportStatusSucceeded {
		t.Errorf("before its time: %+v, %v", now, err)
	}
	if err := raw.Del(t.Context(), keys[1]).Err(); err != nil { // its chunk
		t.Fatal(err)
	}
	file, err := f.ExportFile(t.Context(), f.Caller, &e.Export)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(file); code(err) != string(tollgate.CodeExportExpired) {
		t.Errorf("a part is gone: %v", err)
	}
	if err := raw.Del(t.Context(), keys[2]).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ExportFile(t.Context(), f.Caller, &e.Export); code(err) != string(tollgate.CodeExportExpired) {
		t.Errorf("all of it is gone: %v", err)
	}
	f.Clock.Advance(time.Millisecond)
	now, err := f.Export(t.Context(), f.Caller, e.ID)
	if err != nil || now.Status != tollgate.ExportStatusExpired || now.Result.SHA256 != e.Result.SHA256 {
		t.Errorf("after its time: %+v, %v", now, err)
	}
	if _, err := f.ExportFile(t.Context(), f.Caller, &now.Export); code(err) != string(tollgate.CodeExportExpired) {
		t.Errorf("its file: %v", err)
	}
}

// Only so many exports of an organization wait at a time; a repeat of a request
// is none more.
func TestExportLimit(t *testing.T) {
	f := newFixture(t)
	create := func(key string) (rediskv.Result, error) {
		idem := rediskv.Idempotency{Scope: f.Caller.Organization + ":exports.create", Key: key, Fingerprint: strings.Repeat("f", 64)}
		facts, ch, err := f.newExportChange(t, tollgate.DatasetEvents, tollgate.FormatCSV, tollgate.ExportFilter{})
		if err != nil { // as a handler does
			if earlier, ok, failed := f.FindRepeated(t.Context(), f.Caller, idem); ok || failed != nil {
				return earlier, failed
			}
			return rediskv.Result{}, err
		}
		body, err := json.Marshal(ch.Export)
		if err != nil {
			t.Fatal(err)
		}
		return f.CommitExport(t.Context(), f.Caller, &idem, facts, ch, rediskv.Answer{Status: 202, Body: body})
	}
	var first rediskv.Result
	facts, ch, err := f.newExportChange(t, tollgate.DatasetEvents, tollgate.FormatCSV, tollgate.ExportFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 { // interface §11
		r, err := create(fmt.Sprint(i))
		if err != nil || r.Repeated {
			t.Fatal(i, r, err)
		}
		if i == 0 {
			first = r
		}
	}
	if _, err := f.CommitExport(t.Context(), f.Caller, nil, facts, ch, rediskv.Answer{}); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("of what was there before: %v", err)
	}
	if _, err := create("one more"); code(err) != string(tollgate.CodeQuotaExceeded) {
		t.Errorf("one more: %v", err)
	}
	if r, err := create("0"); err != nil || !r.Repeated || !bytes.Equal(r.Body, first.Body) {
		t.Errorf("a repeat: %+v, %v", r, err)
	}
	if _, err := f.Export(t.Context(), f.Caller, "exp_none"); code(err) != string(tollgate.CodeNotFound) {
		t.Errorf("an export that is not there: %v", err)
	}
	stale := f.Caller
	stale.GrantVersion = 7
	if _, err := f.CommitExport(t.Context(), stale, nil, facts, ch, rediskv.Answer{}); code(err) != string(tollgate.CodeTokenInvalid) {
		t.Errorf("a grant that has changed: %v", err)
	}
	if err := f.deleteExport(t, &exports.StoredExport{Export: ch.Export}); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("canceling what is not there: %v", err)
	}
}
