package rediskv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
)

const (
	// exportKept is how long the record of an export outlives its end. It is
	// longer than its file, so that a file is gone rather than unknown.
	exportKept = 30 * 24 * time.Hour
	// exportListed is how long an export is listed; what is unfinished longer
	// is listed as well.
	exportListed = exportKept + 48*time.Hour
	// chunkBackstop bounds the life of chunks whose export never ends.
	chunkBackstop = tollgate.ExportLifetime + 24*time.Hour
	// fileKept is the life of the chunks of one that has succeeded: a little
	// more than is promised, for clocks that differ.
	fileKept = tollgate.ExportLifetime + time.Hour
)

// exportQuery says in which indexes the rows of a dataset are found.
func exportQuery(d tollgate.Dataset, f *tollgate.ExportFilter) TransactionQuery {
	q := TransactionQuery{
		Accounts: f.Accounts, Statuses: f.Statuses, PaymentID: f.PaymentID,
		CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore, batch: scanBatch,
	}
	switch d {
	case tollgate.DatasetPayments, tollgate.DatasetTickets:
		q.batch = largeBatch
		if len(q.Statuses) == 0 {
			q.Statuses = tollgate.PaymentStatuses
		}
	case tollgate.DatasetPayouts:
		if len(q.Statuses) == 0 {
			q.Statuses = tollgate.PayoutStatuses
		}
	}
	return q
}

// exportLog is the stream that holds the rows of a dataset, empty when indexes
// lead to them.
func (k space) exportLog(d tollgate.Dataset) string {
	switch d {
	case tollgate.DatasetEvents:
		return k.events()
	case tollgate.DatasetAudit:
		return k.audit()
	default:
		return ""
	}
}

// CreateExport stores a job that a worker carries out: all rows of e.Dataset
// that filter selects and that are committed by now. CodeQuotaExceeded when
// tollgate.MaxExports are unfinished, CodeRateLimited when the organization's files take up all that they
// may.
func (s *Store) CreateExport(ctx context.Context, c Caller, idem *Idempotency, e tollgate.Export, filter tollgate.ExportFilter, ans Answer) (Result, error) {
	k := s.space(c.Organization)
	c.Request.Status = ans.Status
	w, err := s.exporting(k, c, e, tollgate.ExportCreated, "export.create", "succeeded")
	if err != nil {
		return Result{}, err
	}
	keys, args := c.request(k, idem, s.Mint(""), ans)
	low, last := int64(0), ""
	log := k.exportLog(e.Dataset)
	var indexes []string
	if log == "" {
		q := exportQuery(e.Dataset, &filter)
		var high int64
		if low, high, err = s.bounds(ctx, k, q); err != nil {
			return Result{}, err
		}
		last = fmt.Sprint(high)
		if q.PaymentID == "" {
			indexes = q.indexes(k)
		}
	}
	doc, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("export: %w", err)
	}
	selects, err := json.Marshal(filter)
	if err != nil {
		return Result{}, fmt.Errorf("export: %w", err)
	}
	var f pairs
	f.set("json", string(doc))
	f.set("flt", string(selects))
	f.int("low", low)
	inv := scriptCreateExport.with(createExportKeys{requestKeys: keys, exportEnds: w.keys, AllExports: k.allExports(), Log: cmp.Or(log, k.sequences())}, createExportArgs{
		requestArgs: args, eventArgs: w.event, auditArgs: w.entry, Organization: k.org, ExportID: e.ID,
		MostUnfinished: tollgate.MaxExports, MostBytes: s.exportBytes, NowMs: int64(s.Now()), FirstPosition: low, LastPosition: last,
		OldestID: tollgate.FirstID(tollgate.PrefixExport, s.Now().Add(-exportListed)), FieldCount: len(f),
	})
	inv.keys, inv.args = append(inv.keys, indexes...), append(inv.args, f...)
	outcome, rest, err := s.run(ctx, inv)
	if err != nil {
		return Result{}, err
	}
	switch outcome {
	case "many":
		return Result{}, tollgate.QuotaExceeded("exports", "%d exports are not finished yet; wait for one, or cancel it.", tollgate.MaxExports)
	case "full":
		return Result{}, s.exportsFull()
	}
	return result(outcome, rest, ans)
}

// exportEnds are what creating and ending an export have in common.
type exportEnds struct {
	logKeys
	Export, Exports, Unfinished, Sizes, Files string
}

type createExportKeys struct {
	requestKeys
	exportEnds
	AllExports, Log string
}

type createExportArgs struct {
	requestArgs
	eventArgs
	auditArgs
	Organization, ExportID string
	MostUnfinished         int
	MostBytes, NowMs       int64
	FirstPosition          int64
	LastPosition, OldestID string
	FieldCount             int
}

var scriptCreateExport = newScript[createExportKeys, createExportArgs]("create_export")

type endExportKeys struct {
	exportEnds
	Grant, Mark string
}

type endExportArgs struct {
	GrantVersion string
	eventArgs
	auditArgs
	Owner           string
	KnownChunks     int
	Status          string
	JobLifetime     int64
	Group, ExportID string
	FileGoneAt      int64
	FieldCount      int
}

var scriptEndExport = newScript[endExportKeys, endExportArgs]("end_export")

// exportWriting is where an export is, and what is said of it; t is empty where
// it is no event.
type exportWriting struct {
	keys  exportEnds
	event eventArgs
	entry auditArgs
}

func (s *Store) exporting(k space, c Caller, e tollgate.Export, t tollgate.EventType, kind, outcome string) (w exportWriting, err error) {
	event, err := tollgate.NewEvent(s.Mint(tollgate.PrefixEvent), t, s.Now(), k.org, "", c.Request.ID, e.EventData())
	if err != nil {
		return w, fmt.Errorf("export: %w", err)
	}
	if w.event, err = eventArguments(&event); err != nil {
		return w, err
	}
	if w.entry, err = s.entry(c, kind, outcome, string(e.Dataset), "export", e.ID); err != nil {
		return w, err
	}
	w.keys = exportEnds{k.logs(), k.object(e.ID), exportsKey(k.partition), k.unfinished(), k.exportSizes(), k.exportFiles()}
	return w, nil
}

// Export reads an export and what it selects. Whether the caller may see it
// is for the caller to decide by filter.Accounts.
func (s *Store) Export(ctx context.Context, c Caller, id string) (*tollgate.Export, *tollgate.ExportFilter, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, nil, err
	}
	if !strings.HasPrefix(id, tollgate.PrefixExport) {
		return nil, nil, notFound()
	}
	found, err := s.readHashes(ctx, "read_export", k.object(id))
	if err != nil {
		return nil, nil, err
	}
	filter := new(tollgate.ExportFilter)
	e, err := exportOf(found[0], filter)
	if err == nil && e.ID != id {
		err = fmt.Errorf("the document is of %q", e.ID)
	}
	if err != nil {
		return nil, nil, s.damaged(ctx, k, "export", id, err)
	}
	now := e.At(s.Now())
	return &now, filter, nil
}

func exportOf(f fields, filter *tollgate.ExportFilter) (*tollgate.Export, error) {
	e := new(tollgate.Export)
	if err := decode(f["json"], e, f["flt"], filter); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	r := read("export", e.ID, f)
	total := r.count("total")
	e.Status = tollgate.ExportStatus(r.word("st", string(tollgate.ExportPending), string(tollgate.ExportRunning), string(tollgate.ExportDone),
		string(tollgate.ExportFailed), string(tollgate.ExportCanceled), string(tollgate.ExportExpired)))
	e.StartedAt, e.FinishedAt = r.moment("start"), r.moment("fin")
	e.Progress = tollgate.ExportProgress{RowsDone: r.count("done"), RowsTotal: &total}
	if text := f["prev"]; text != "" {
		if err := json.Unmarshal([]byte(text), &e.Preview); err != nil {
			return nil, fmt.Errorf("export %s: preview: %w", e.ID, err)
		}
	}
	switch e.Status {
	case tollgate.ExportDone, tollgate.ExportExpired:
		e.Result = &tollgate.ExportResult{Rows: r.int("done"), Bytes: r.int("bytes"), SHA256: r.text("sum"), ExpiresAt: r.instant("exp")}
	case tollgate.ExportFailed:
		e.Error = &tollgate.ExportError{Code: tollgate.Code(f["code"]), Message: f["why"]}
	}
	if sum := f["sum"]; e.Result != nil && (len(sum) != 2*sha256.Size || strings.Trim(sum, "0123456789abcdef") != "") {
		r.fault("sum")
	}
	return e, r.err()
}

// CancelExport ends an export that was read, e as it will be; what is there of
// its file is removed. ErrConflict: it has ended meanwhile.
func (s *Store) CancelExport(ctx context.Context, c Caller, e tollgate.Export) error {
	_, err := s.endExport(ctx, c, exportEnd{Export: e, audit: "export.cancel", outcome: "succeeded"})
	return err
}

// DropExport removes the file of an export that has succeeded, e as it will be.
// ErrConflict: somebody else has removed it meanwhile.
func (s *Store) DropExport(ctx context.Context, c Caller, e tollgate.Export) error {
	end := exportEnd{Export: e, audit: "export.delete", outcome: "succeeded"}
	end.fields.int("exp", int64(e.Result.ExpiresAt))
	_, err := s.endExport(ctx, c, end)
	return err
}

// exportEnd is an export as it will be in the end.
type exportEnd struct {
	tollgate.Export
	owner          string
	chunks         int
	event          tollgate.EventType // empty: none
	audit, outcome string
	fields         pairs
}

func (s *Store) endExport(ctx context.Context, c Caller, e exportEnd) (outcome string, err error) {
	k := s.space(c.Organization)
	w, err := s.exporting(k, c, e.Export, e.event, e.audit, e.outcome)
	if err != nil {
		return "", err
	}
	gone := s.Now().Add(chunkBackstop)
	if e.Status == tollgate.ExportDone {
		gone = s.Now().Add(fileKept)
	}
	e.fields.int("fin", int64(e.FinishedAt))
	grant, version := c.grant(k)
	inv := scriptEndExport.with(endExportKeys{w.keys, grant, k.mark(s.Mint(""))}, endExportArgs{
		GrantVersion: version, eventArgs: w.event, auditArgs: w.entry, Owner: e.owner, KnownChunks: e.chunks, Status: string(e.Status),
		JobLifetime: exportKept.Milliseconds(), Group: dispatchGroup, ExportID: e.ID, FileGoneAt: int64(gone), FieldCount: len(e.fields),
	})
	inv.args = append(inv.args, e.fields...)
	outcome, rest, err := s.run(ctx, inv)
	if err == nil && outcome != "lost" && e.Status != tollgate.ExportDone {
		text, _ := rest[0].(string)
		n, _ := strconv.ParseInt(text, 10, 64) // none: what there is of it expires by itself
		// What this leaves behind expires by itself, and counts until then.
		_ = s.removeFile(context.WithoutCancel(ctx), k, e.ID, int(n))
	}
	return outcome, err
}
