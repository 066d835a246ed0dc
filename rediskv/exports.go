package rediskv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

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

// StoredExport is an export as it was read, and what it selects: whether the
// caller may see it is for the caller to decide by the filter's accounts.
type StoredExport struct {
	tollgate.Export
	Filter tollgate.ExportFilter
	entry  string // in its partition's stream
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
	k := s.space(org)
	f := &ExportFacts{filter: filter, Room: tollgate.ExportRoom{Most: s.exportBytes}}
	var err error
	if f.Room.Bytes, err = s.freeExport(ctx, k, ""); err != nil {
		return nil, err
	}
	var high int64
	var indexes []string
	log := k.exportLog(d)
	if log == "" {
		q := exportQuery(d, &filter)
		if f.low, high, err = s.bounds(ctx, k, q); err != nil {
			return nil, err
		}
		if q.PaymentID == "" {
			indexes = q.indexes(k)
		}
	}
	sequences := read("", "", fields{})
	err = s.timed(ctx, "export_facts", func(ctx context.Context) error {
		pipe := s.client.TxPipeline()
		unfinished := pipe.SCard(ctx, k.unfinished())
		last, entries := pipe.XRevRangeN(ctx, cmp.Or(log, k.events()), "+", "-", 1), pipe.XLen(ctx, cmp.Or(log, k.events()))
		sequence := pipe.HGet(ctx, k.sequences(), "event")
		counts := make([]*redis.IntCmd, len(indexes))
		for i, index := range indexes {
			counts[i] = pipe.ZCount(ctx, index, strconv.FormatInt(f.low, 10), strconv.FormatInt(high, 10))
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		f.Room.Unfinished = int(unfinished.Val())
		if log != "" {
			f.cut, f.total = "0-0", entries.Val()
			for _, m := range last.Val() {
				f.cut = m.ID
			}
			return nil
		}
		sequences.fields["event"] = sequence.Val()
		f.cut = strconv.FormatInt(min(high, sequences.count("event")*16+15), 10)
		for _, c := range counts {
			f.total += c.Val()
		}
		return nil
	})
	if err == nil {
		err = s.damagedAt(ctx, k.sequences(), sequences.err())
	}
	return f, err
}

// CommitExport writes a new export. ErrConflict when another one has begun or
// ended since the facts were read.
func (s *Store) CommitExport(ctx context.Context, c Caller, idem *Idempotency, facts *ExportFacts, ch *tollgate.ExportChange, ans Answer) (Result, error) {
	b, e := s.commit(c, idem), &ch.Export
	b.answer = ans
	k := b.space
	doc, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("export: %w", err)
	}
	selects, err := json.Marshal(facts.filter)
	if err != nil {
		return Result{}, fmt.Errorf("export: %w", err)
	}
	var f pairs
	f.set(envelopeField, envelope)
	f.set("st", string(e.Status))
	f.set("cut", facts.cut)
	f.int("total", facts.total)
	f.set("n", "0")
	f.set("tries", "0")
	f.set("json", string(doc))
	f.set("flt", string(selects))
	f.int("low", facts.low)
	b.still(strconv.Itoa(facts.Room.Unfinished), "SCARD", k.unfinished())
	b.hash(k.object(e.ID), "", f)
	b.kept(k.object(e.ID), "entry", "XADD", exportsKey(k.partition), "*", "o", k.org, "e", e.ID)
	b.do("SADD", k.unfinished(), e.ID)
	b.do("ZADD", k.allExports(), "0", e.ID)
	b.do("ZREMRANGEBYLEX", k.allExports(), "-", "("+tollgate.FirstID(tollgate.PrefixExport, e.CreatedAt.Add(-exportListed)))
	if err := b.export(ch); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// export says what the change is to others.
func (c *commit) export(ch *tollgate.ExportChange) error {
	if ch.Event != nil {
		c.events = append(c.events, *ch.Event)
	}
	return c.audited(ch.Action, ch.Outcome, string(ch.Export.Dataset), "export", ch.Export.ID)
}

// EndExport writes the end of an export that was read, and removes what there is
// of its file unless it has succeeded. ErrConflict when it has been begun or has
// ended otherwise since it was read.
func (s *Store) EndExport(ctx context.Context, c Caller, was *StoredExport, ch *tollgate.ExportChange) error {
	return s.endExport(ctx, s.commit(c, nil), was.entry, ch)
}

func (s *Store) endExport(ctx context.Context, b *commit, entry string, ch *tollgate.ExportChange) error {
	k, e := b.space, &ch.Export
	key := k.object(e.ID)
	var f pairs
	f.set("st", string(e.Status))
	if r := e.Result; r != nil {
		f.set("sum", r.SHA256)
		f.int("exp", int64(r.ExpiresAt))
		f.int("total", r.Rows)
	}
	if e.Error != nil {
		f.set("code", string(e.Error.Code))
		f.set("why", e.Error.Message)
	}
	f.int("fin", int64(e.FinishedAt))
	b.still(string(ch.From), "HGET", key, "st")
	b.hash(key, "", f)
	b.do("PEXPIRE", key, exportKept.Milliseconds())
	b.do("SREM", k.unfinished(), e.ID)
	if entry != "" {
		b.do("XACK", exportsKey(k.partition), dispatchGroup, entry)
		b.do("XDEL", exportsKey(k.partition), entry)
	}
	// What the file takes up counts until it is gone.
	switch e.Status {
	case tollgate.ExportDone:
		if e.Result.Bytes > 0 {
			b.do("ZADD", k.exportFiles(), milli(s.Now().Add(fileKept)), e.ID)
		}
	case tollgate.ExportExpired:
		b.do("HDEL", key, "prev")
	default:
		b.do("HDEL", key, "prev")
		b.do("ZADD", k.exportFiles(), milli(s.Now().Add(chunkBackstop)), e.ID)
	}
	if err := b.export(ch); err != nil {
		return err
	}
	if _, err := b.run(ctx); err != nil || e.Status == tollgate.ExportDone {
		return err
	}
	// What this leaves behind expires by itself, and counts until then.
	_ = s.RemoveExportFile(context.WithoutCancel(ctx), k.org, e.ID)
	return nil
}

// Export reads an export.
func (s *Store) Export(ctx context.Context, c Caller, id string) (*StoredExport, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(id, tollgate.PrefixExport) {
		return nil, tollgate.NotFound()
	}
	found, err := s.readHashes(ctx, "read_export", k.object(id))
	if err != nil {
		return nil, err
	}
	e, err := exportOf(found[0])
	if err == nil && e.ID != id {
		err = fmt.Errorf("the document is of %q", e.ID)
	}
	if err != nil {
		return nil, s.damaged(ctx, k, "export", id, err)
	}
	e.Export = e.At(s.Now())
	return e, nil
}

func exportOf(f fields) (*StoredExport, error) {
	e := &StoredExport{entry: f["entry"]}
	if err := f.document(&e.Export, f["flt"], &e.Filter); err != nil {
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
