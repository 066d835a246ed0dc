package exports

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
)

const (
	// Kept is how long the record of an export outlives its end. It is
	// longer than its file, so that a file is gone rather than unknown.
	Kept = 30 * 24 * time.Hour
	// exportListed is how long an export is listed; what is unfinished longer
	// is listed as well.
	exportListed = Kept + 48*time.Hour
	// chunkBackstop bounds the life of chunks whose export never ends.
	chunkBackstop = tollgate.ExportLifetime + 24*time.Hour
	// FileKept is the life of the chunks of one that has succeeded: a little
	// more than is promised, for clocks that differ.
	FileKept = tollgate.ExportLifetime + time.Hour
)

// StoredExport is an export as it was read, and what it selects: whether the
// caller may see it is for the caller to decide by the filter's accounts.
type StoredExport struct {
	tollgate.Export
	Filter tollgate.ExportFilter
	entry  string         // in its partition's stream
	fields rediskv.Fields // as they were read
}

// ExportFacts are what a new export depends on: the room that there is, and how
// far it goes. Nothing that is committed later is in it.
type ExportFacts struct {
	Room   tollgate.ExportRoom
	filter tollgate.ExportFilter
	low    int64
	cut    string
	total  int64
}

// ExportFacts reads them for all rows of a dataset that a filter selects.
func (s *Store) ExportFacts(ctx context.Context, org string, d tollgate.Dataset, filter tollgate.ExportFilter) (*ExportFacts, error) {
	k := s.db.Space(org)
	f := &ExportFacts{filter: filter, Room: tollgate.ExportRoom{Most: s.db.ExportBytes}}
	var err error
	if f.Room.Bytes, err = s.freeExport(ctx, k, ""); err != nil {
		return nil, err
	}
	var high int64
	var indexes []string
	log := exportSources[d].log
	if log == "" {
		q := exportQuery(d, &filter)
		if f.low, high, err = s.ledger.Bounds(ctx, k, q); err != nil {
			return nil, err
		}
		if q.PaymentID == "" {
			indexes = q.Indexes(k)
		}
	}
	sequences := record.ReadHash("", "", rediskv.Fields{})
	entries := streams.Counter{Log: k.Object(cmp.Or(log, eventlog.LogEvents))}
	err = s.db.Timed(ctx, "export_facts", func(ctx context.Context) error {
		var unfinished *redis.IntCmd
		var last *redis.XMessageSliceCmd
		var sequence *redis.StringCmd
		counts := make([]*redis.IntCmd, len(indexes))
		ask := func(pipe redis.Pipeliner) {
			unfinished, sequence = pipe.SCard(ctx, k.Unfinished()), pipe.HGet(ctx, k.Sequences(), "event")
			last = pipe.XRevRangeN(ctx, entries.Log, "+", "-", 1) // it is always in the head
			entries.Ask(ctx, pipe)
			for i, index := range indexes {
				counts[i] = pipe.ZCount(ctx, index, strconv.FormatInt(f.low, 10), strconv.FormatInt(high, 10))
			}
		}
		for done := false; !done; done = entries.Done() || log == "" {
			if err := s.db.AtOnce(ctx, ask); err != nil {
				return err
			}
		}
		f.Room.Unfinished = int(unfinished.Val())
		if log != "" {
			f.cut, f.total = "0-0", entries.Len()
			for _, m := range last.Val() {
				f.cut = m.ID
			}
			return nil
		}
		sequences.Fields["event"] = sequence.Val()
		f.cut = strconv.FormatInt(min(high, sequences.Count("event")*16+15), 10)
		for _, c := range counts {
			f.total += c.Val()
		}
		return nil
	})
	if err == nil && log != "" {
		var trimmed int64
		trimmed, err = s.events.CountTrimmed(ctx, k, log)
		f.total += trimmed
	}
	if err == nil {
		err = s.db.DamagedAt(ctx, k.Sequences(), sequences.Err())
	}
	return f, err
}

// CommitExport writes a new export. ErrConflict when another one has begun or
// ended since the facts were read.
func (s *Store) CommitExport(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, facts *ExportFacts, ch *tollgate.ExportChange, ans rediskv.Answer) (rediskv.Result, error) {
	b, e := s.db.NewCommit(c, idem), &ch.Export
	b.Answer = ans
	k := b.Space
	doc, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return rediskv.Result{}, fmt.Errorf("export: %w", err)
	}
	selects, err := json.Marshal(facts.filter)
	if err != nil {
		return rediskv.Result{}, fmt.Errorf("export: %w", err)
	}
	var f rediskv.Pairs
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Set("st", string(e.Status))
	f.Set("cut", facts.cut)
	f.Int("total", facts.total)
	f.Set("n", "0")
	f.Set("tries", "0")
	f.Set("json", string(doc))
	f.Set("flt", string(selects))
	f.Int("low", facts.low)
	b.Still(strconv.Itoa(facts.Room.Unfinished), "SCARD", k.Unfinished())
	b.Hash(k.Object(e.ID), "", f)
	b.Kept(k.Object(e.ID), "entry", "XADD", rediskv.ExportsKey(k.Partition), "*", "o", k.Org, "e", e.ID)
	b.Do("SADD", k.Unfinished(), e.ID)
	b.Do("ZADD", k.AllExports(), "0", e.ID)
	b.Do("ZREMRANGEBYLEX", k.AllExports(), "-", "("+tollgate.FirstID(tollgate.PrefixExport, e.CreatedAt.Add(-exportListed)))
	if err := export(b, ch); err != nil {
		return rediskv.Result{}, err
	}
	return b.Run(ctx)
}

// export says what the change is to others.
func export(c *rediskv.Commit, ch *tollgate.ExportChange) error {
	if ch.Event != nil {
		c.Events = append(c.Events, *ch.Event)
	}
	return c.Audited(ch.Action, ch.Outcome, string(ch.Export.Dataset), "export", ch.Export.ID)
}

// EndExport writes the end of an export that was read, and removes what there is
// of its file unless it has succeeded. ErrConflict when it has been begun or has
// ended otherwise since it was read.
func (s *Store) EndExport(ctx context.Context, c rediskv.Caller, was *StoredExport, ch *tollgate.ExportChange) error {
	return s.endExport(ctx, s.db.NewCommit(c, nil), was, ch)
}

// endExport writes the end of an export whose status is still what it was. All that the
// checksum covers beside what is written here stays as it was made.
func (s *Store) endExport(ctx context.Context, b *rediskv.Commit, was *StoredExport, ch *tollgate.ExportChange) error {
	k, e, entry := b.Space, &ch.Export, was.entry
	key := k.Object(e.ID)
	var f rediskv.Pairs
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Set("st", string(e.Status))
	if r := e.Result; r != nil {
		f.Set("sum", r.SHA256)
		f.Int("exp", int64(r.ExpiresAt))
		f.Int("total", r.Rows)
	}
	if e.Error != nil {
		f.Set("code", string(e.Error.Code))
		f.Set("why", e.Error.Message)
	}
	f.Int("fin", int64(e.FinishedAt))
	b.Still(string(ch.From), "HGET", key, "st")
	b.Hashes = append(b.Hashes, rediskv.HashWrite{Key: key, Fields: f, Beside: was.fields})
	b.Do("HDEL", key, "own", "tries", "entry") // of the work on it
	b.Do("PEXPIRE", key, Kept.Milliseconds())
	b.Do("SREM", k.Unfinished(), e.ID)
	if entry != "" {
		b.Do("XACK", rediskv.ExportsKey(k.Partition), rediskv.DispatchGroup, entry)
		b.Do("XDEL", rediskv.ExportsKey(k.Partition), entry)
	}
	// What the file takes up counts until it is gone.
	switch e.Status {
	case tollgate.ExportStatusSucceeded:
		if e.Result.Bytes > 0 {
			b.Do("ZADD", k.ExportFiles(), rediskv.Milli(s.db.Now().Add(FileKept)), e.ID)
		}
	case tollgate.ExportStatusExpired:
		b.Do("HDEL", key, "prev")
	default:
		b.Do("HDEL", key, "prev")
		b.Do("ZADD", k.ExportFiles(), rediskv.Milli(s.db.Now().Add(chunkBackstop)), e.ID)
	}
	if err := export(b, ch); err != nil {
		return err
	}
	if _, err := b.Run(ctx); err != nil || e.Status == tollgate.ExportStatusSucceeded {
		return err
	}
	// What this leaves behind expires by itself, and counts until then.
	_ = s.RemoveExportFile(context.WithoutCancel(ctx), k.Org, e.ID)
	return nil
}

// Export reads an export.
func (s *Store) Export(ctx context.Context, c rediskv.Caller, id string) (_ *StoredExport, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	f, err := s.db.ReadObject(ctx, "read_export", k, tollgate.PrefixExport, id)
	if err != nil {
		return nil, err
	}
	e, err := exportOf(k.Object(id), f)
	if err == nil && e.ID != id {
		err = fmt.Errorf("the document is of %q", e.ID)
	}
	if err != nil {
		return nil, s.db.Damaged(ctx, k, "export", id, err)
	}
	e.Export = e.At(s.db.Now())
	return e, nil
}

// exportOf reads the hash of an export back.
func exportOf(key string, f rediskv.Fields) (*StoredExport, error) {
	e := &StoredExport{entry: f["entry"], fields: f}
	if err := f.Document(&e.Export, f["flt"], &e.Filter); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	r := record.ReadHash("export", e.ID, f)
	if name := damaged(key, f); name != "" {
		r.Fault(name)
	}
	total := r.Count("total")
	e.Status = tollgate.ExportStatus(r.Word("st", string(tollgate.ExportStatusPending), string(tollgate.ExportStatusRunning), string(tollgate.ExportStatusSucceeded),
		string(tollgate.ExportStatusFailed), string(tollgate.ExportStatusCanceled), string(tollgate.ExportStatusExpired)))
	e.StartedAt, e.FinishedAt = r.Moment("start"), r.Moment("fin")
	e.Progress = tollgate.ExportProgress{RowsDone: r.Count("done"), RowsTotal: &total}
	if text := f["prev"]; text != "" {
		if err := json.Unmarshal([]byte(text), &e.Preview); err != nil {
			return nil, fmt.Errorf("export %s: preview: %w", e.ID, err)
		}
	}
	switch e.Status {
	case tollgate.ExportStatusSucceeded, tollgate.ExportStatusExpired:
		e.Result = &tollgate.ExportResult{Rows: r.Int("done"), Bytes: r.Int("bytes"), SHA256: r.Text("sum"), ExpiresAt: r.Instant("exp")}
	case tollgate.ExportStatusFailed:
		e.Error = &tollgate.ExportError{Code: tollgate.Code(f["code"]), Message: f["why"]}
	}
	if e.Result != nil && (e.Result.ExpiresAt > e.FinishedAt.Add(tollgate.ExportLifetime) || e.Status == tollgate.ExportStatusSucceeded && e.Result.ExpiresAt < e.FinishedAt.Add(tollgate.ExportLifetime)) {
		r.Fault("exp")
	}
	if sum := f["sum"]; e.Result != nil && (len(sum) != 2*sha256.Size || strings.Trim(sum, "0123456789abcdef") != "") {
		r.Fault("sum")
	}
	return e, r.Err()
}

// Damage says why the hash of an export cannot be read.
func Damage(key string, f rediskv.Fields) error {
	_, err := exportOf(key, f)
	return err
}

// damaged is the field that is not what was written, of those that no checksum covers: how
// far the work has come, the preview, or the number of rows of a file that is done.
func damaged(key string, f rediskv.Fields) string {
	if _, whole := record.Marked(f["marks"], key, progressIn(f)...); !whole {
		return "marks"
	}
	if !previewIs(key[strings.LastIndexByte(key, ':')+1:], f) {
		return "prev"
	}
	if f["sum"] != "" && f["done"] != f["total"] {
		return "done"
	}
	return ""
}

// progressIn are the fields that say how far the work on an export has come.
func progressIn(f rediskv.Fields) (values []string) {
	for _, name := range []string{"at", "done", "left", "bytes", "sha", "n", "start"} {
		values = append(values, f[name])
	}
	return values
}

// previewSum is the checksum of an export's preview, which grows while the export runs:
// its length, and the sum.
func previewSum(id, preview string) string {
	return strconv.Itoa(len(preview)) + ":" + record.GoldenSum("preview of "+id, preview)
}

// previewIs reports whether the preview of an export is what was written. A release that
// makes no sums may have added to it since: then its beginning is.
func previewIs(id string, f rediskv.Fields) bool {
	preview, sum := f["prev"], f["psum"]
	if preview == "" || sum == "" {
		return true
	}
	number, _, _ := strings.Cut(sum, ":")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(preview) {
		return false
	}
	if n < len(preview) {
		preview = preview[:n-1] + "]"
	}
	return previewSum(id, preview) == sum
}
