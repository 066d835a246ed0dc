package rediskv

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

const (
	// previewRows and previewBytes bound an export's preview: its first rows.
	previewRows  = 10
	previewBytes = 64 << 10
	// givenBack is for how long nobody has renewed what is given back: longer
	// than any lease.
	givenBack = 24 * time.Hour
)

// ErrExportLost: the export is another worker's now, or has ended.
var ErrExportLost = errors.New("export is no longer this worker's")

// ExportJob is an export in a worker's hands. One goroutine works on it, except
// that another one may read ahead with ExportRows.
type ExportJob struct {
	StoredExport
	Organization string
	// Tries counts the times that work on it was begun since something was last
	// written, this one included.
	Tries int64

	space           space
	consumer, owner string
	cut             string
	low             int64
	reading         string // the place of the last row that was read
	passed          string // of the last one that is in the file, or was left out
	chunks          int
	bytes           int64
	rows, left      int64 // in the file; left out
	total           int64
	sum             hash.Hash
	preview         []jsontext.Value
	shown           int // rows of the preview that are stored,
	shownBytes      int // and its size
}

// NextExport takes an export of a partition that waits for a worker, or that
// another worker has not renewed for so long; nil when there is none. may says
// whether an organization's is wanted; nil is everybody's. Among those that are,
// the organization with the fewest in work has its turn, and turns go round.
func (s *Store) NextExport(ctx context.Context, partition int, consumer string, idle time.Duration, may func(org string) bool) (*ExportJob, error) {
	for {
		entry, err := s.nextExportEntry(ctx, partition, consumer, idle, may)
		if err != nil || entry == nil {
			return nil, err
		}
		j := &ExportJob{space: s.space(text(*entry, "o")), Organization: text(*entry, "o"), consumer: consumer}
		j.entry, j.ID = entry.ID, text(*entry, "e")
		err = s.BeginExport(ctx, j, true)
		if err == nil {
			return j, nil
		}
		switch {
		case errors.Is(err, ErrExportLost), IsDamage(err):
		case ctx.Err() != nil: // between the claim and the beginning: nobody should wait for its lease
			return nil, errors.Join(err, s.LeaveExport(context.WithoutCancel(ctx), j))
		default: // the lease is the pause before it is tried again
			return nil, err
		}
	}
}

type exportKeys struct{ Export, Exports, Mark string }

type beginExportArgs struct {
	Owner               string
	NowMs               int64
	Group, Entry, IsTry string
}

type leaveExportArgs struct {
	Owner, Group, Consumer, Entry string
	IdleMs                        int64
}

var (
	scriptBeginExport = newScript[exportKeys, beginExportArgs](lua, "begin_export")
	scriptLeaveExport = newScript[exportKeys, leaveExportArgs](lua, "leave_export")
)

// BeginExport makes the worker the owner and the job what Redis knows of it:
// whoever owned it before appends no more. count says whether it is a try that
// may be the last; an outage of Redis is not the job's fault. ErrExportLost: it
// has ended.
func (s *Store) BeginExport(ctx context.Context, j *ExportJob, count bool) error {
	counts := "0"
	if count {
		counts = "1"
	}
	j.owner = s.Mint("")
	outcome, rest, err := s.run(ctx, scriptBeginExport.with(
		exportKeys{j.space.object(j.ID), exportsKey(j.space.partition), j.space.mark(j.owner)},
		beginExportArgs{Owner: j.owner, NowMs: int64(s.Now()), Group: dispatchGroup, Entry: j.entry, IsTry: counts},
	))
	if err != nil {
		return err
	}
	if outcome == "ended" {
		return ErrExportLost
	}
	id := j.ID
	if err := j.load(fieldsOf(rest[0])); err != nil {
		return s.damaged(ctx, j.space, "export", id, err)
	}
	return nil
}

// LeaveExport gives an unfinished export that the consumer has claimed to
// whoever asks for one next, instead of when nobody has renewed it for so long.
// ErrExportLost: it is another consumer's, or has ended.
func (s *Store) LeaveExport(ctx context.Context, j *ExportJob) error {
	outcome, _, err := s.run(ctx, scriptLeaveExport.with(
		exportKeys{j.space.object(j.ID), exportsKey(j.space.partition), j.space.mark(s.Mint(""))},
		leaveExportArgs{Owner: j.owner, Group: dispatchGroup, Consumer: j.consumer, Entry: j.entry, IdleMs: givenBack.Milliseconds()},
	))
	if err == nil && outcome == "lost" {
		return ErrExportLost
	}
	return err
}

func (j *ExportJob) load(f fields) error {
	e, err := exportOf(f)
	if err != nil {
		return err
	}
	r := read("export", j.ID, f)
	e.entry = j.entry
	j.StoredExport, j.Tries = *e, r.count("tries")
	j.cut, j.low, j.reading, j.passed = f["cut"], r.count("low"), f["at"], f["at"]
	j.chunks, j.bytes, j.rows, j.left, j.total = int(r.count("n")), r.count("bytes"), r.count("done"), r.count("left"), r.count("total")
	if err := r.err(); err != nil {
		return err
	}
	j.preview, j.shown, j.shownBytes = e.Preview, len(e.Preview), len(f["prev"])
	j.sum = sha256.New()
	if state := f["sha"]; state != "" {
		if err := j.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary([]byte(state)); err != nil {
			return fmt.Errorf("export %s: checksum: %w", j.ID, err)
		}
	}
	return nil
}

// Fresh reports whether nothing is in the file yet.
func (j *ExportJob) Fresh() bool { return j.chunks == 0 }

// Pass notes that a row of ExportRows is in what the next AppendExport
// appends, or is left out of the file.
func (j *ExportJob) Pass(r ExportedRow) error {
	j.passed = r.place
	if !r.Selected {
		j.left++
		return nil
	}
	j.rows++
	if j.rows > previewRows || len(j.preview) < int(j.rows)-1 { // it is full
		return nil
	}
	doc, err := r.JSON()
	size := len(doc)
	for _, shown := range j.preview {
		size += len(shown)
	}
	if err == nil && size <= previewBytes {
		j.preview = append(j.preview, doc)
	}
	return err
}

type appendExportKeys struct {
	exportKeys
	Chunk, Ends, Sizes, Files string
}

type appendExportArgs struct {
	Owner                            string
	Chunks                           int
	ChunkText                        []byte
	EndOffset, FileLifetime          int64
	Group, Consumer, Entry, ExportID string
	Bytes                            int
	MostBytes, NowMs                 int64
	FieldCount                       int
}

var scriptAppendExport = newScript[appendExportKeys, appendExportArgs](lua, "append_export")

// AppendExport appends a chunk that ends behind the last row that was passed;
// an empty one only notes how far the work is. ErrExportLost: nothing was
// appended. CodeRateLimited: neither, because the organization's files take up
// all that they may.
func (s *Store) AppendExport(ctx context.Context, j *ExportJob, chunk []byte) error {
	j.sum.Write(chunk)
	state, err := j.sum.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return fmt.Errorf("export %s: checksum: %w", j.ID, err)
	}
	var f pairs
	f.set("at", j.passed)
	f.int("done", j.rows)
	f.int("left", j.left)
	f.int("total", max(j.total-j.left, j.rows))
	f.int("bytes", j.bytes+int64(len(chunk)))
	f.set("sha", string(state))
	shownBytes := j.shownBytes
	if len(j.preview) != j.shown {
		preview, err := json.Marshal(j.preview, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("export %s: preview: %w", j.ID, err)
		}
		f.set("prev", string(preview))
		shownBytes = len(preview)
	}
	var packed []byte
	if len(chunk) > 0 {
		packed = packChunk(chunk)
	}
	inv := scriptAppendExport.with(appendExportKeys{
		exportKeys: exportKeys{j.space.object(j.ID), exportsKey(j.space.partition), j.space.mark(s.Mint(""))},
		Chunk:      j.space.chunk(j.ID, j.chunks), Ends: j.space.ends(j.ID), Sizes: j.space.exportSizes(), Files: j.space.exportFiles(),
	}, appendExportArgs{
		Owner: j.owner, Chunks: j.chunks, ChunkText: packed, EndOffset: j.bytes + int64(len(chunk)), FileLifetime: chunkBackstop.Milliseconds(),
		Group: dispatchGroup, Consumer: j.consumer, Entry: j.entry, ExportID: j.ID,
		Bytes: len(packed) + shownBytes - j.shownBytes, MostBytes: s.exportBytes, NowMs: int64(s.Now()), FieldCount: len(f),
	})
	inv.args = append(inv.args, f...)
	outcome, _, err := s.run(ctx, inv)
	if err != nil {
		return err
	}
	switch outcome {
	case "lost":
		return ErrExportLost
	case "full":
		return tollgate.ExportsFull(s.exportBytes)
	}
	j.shown, j.shownBytes = len(j.preview), shownBytes
	if len(chunk) > 0 {
		j.chunks++
		j.bytes += int64(len(chunk))
	}
	return nil
}

// File is what has been made of the export's file.
func (j *ExportJob) File() tollgate.ExportResult {
	return tollgate.ExportResult{Rows: j.rows, Bytes: j.bytes, SHA256: hex.EncodeToString(j.sum.Sum(nil))}
}

// EndJob writes the end of an export that is in the worker's hands. Before one
// counts as done, what there is of its file is made to last as long as it is
// promised. ErrExportLost: nothing was written.
func (s *Store) EndJob(ctx context.Context, j *ExportJob, ch *tollgate.ExportChange) error {
	if ch.Export.Status == tollgate.ExportDone {
		if err := s.keepChunks(ctx, j); err != nil {
			return err
		}
	}
	b := s.commit(Caller{Organization: j.Organization}, nil)
	b.still(j.owner, "HGET", j.space.object(j.ID), "own")
	b.still(strconv.Itoa(j.chunks), "HGET", j.space.object(j.ID), "n")
	err := s.endExport(ctx, b, j.entry, ch)
	if errors.Is(err, ErrConflict) {
		return ErrExportLost
	}
	return err
}

// keepChunks gives every chunk the life of the file.
func (s *Store) keepChunks(ctx context.Context, j *ExportJob) error {
	for first := 0; first < j.chunks; first += chunksAtOnce {
		if err := s.timed(ctx, "keep_chunks", func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			kept := []*redis.BoolCmd{pipe.PExpire(ctx, j.space.ends(j.ID), fileKept)}
			for n := first; n < min(first+chunksAtOnce, j.chunks); n++ {
				kept = append(kept, pipe.PExpire(ctx, j.space.chunk(j.ID, n), fileKept))
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			for i, k := range kept {
				if !k.Val() {
					return &tollgate.Error{Code: tollgate.CodeInternal, Message: fmt.Sprintf("export %s: chunk %d is no longer there", j.ID, first+i-1)}
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
