package exports

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
	"tollgate/rediskv"
	"tollgate/rediskv/frames"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
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

	space           rediskv.Space
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
		j := &ExportJob{space: s.db.Space(rediskv.Text(*entry, "o")), Organization: rediskv.Text(*entry, "o"), consumer: consumer}
		j.entry, j.ID = entry.ID, rediskv.Text(*entry, "e")
		err = s.BeginExport(ctx, j, true)
		if err == nil {
			return j, nil
		}
		switch {
		case errors.Is(err, ErrExportLost), rediskv.IsDamage(err):
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
	scriptBeginExport = script.New[exportKeys, beginExportArgs](lua, "begin_export")
	scriptLeaveExport = script.New[exportKeys, leaveExportArgs](lua, "leave_export")
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
	j.owner = s.db.NewID("")
	outcome, rest, err := s.db.Run(ctx, scriptBeginExport.With(
		exportKeys{j.space.Object(j.ID), rediskv.ExportsKey(j.space.Partition), j.space.Mark(j.owner)},
		beginExportArgs{Owner: j.owner, NowMs: int64(s.db.Now()), Group: rediskv.DispatchGroup, Entry: j.entry, IsTry: counts},
	))
	if err != nil {
		return err
	}
	if outcome == "ended" {
		return ErrExportLost
	}
	id := j.ID
	if err := j.load(record.Verified(j.space.Object(id), record.FieldsOf(rest[0]))); err != nil {
		return s.db.Damaged(ctx, j.space, "export", id, err)
	}
	return nil
}

// LeaveExport gives an unfinished export that the consumer has claimed to
// whoever asks for one next, instead of when nobody has renewed it for so long.
// ErrExportLost: it is another consumer's, or has ended.
func (s *Store) LeaveExport(ctx context.Context, j *ExportJob) error {
	outcome, _, err := s.db.Run(ctx, scriptLeaveExport.With(
		exportKeys{j.space.Object(j.ID), rediskv.ExportsKey(j.space.Partition), j.space.Mark(s.db.NewID(""))},
		leaveExportArgs{Owner: j.owner, Group: rediskv.DispatchGroup, Consumer: j.consumer, Entry: j.entry, IdleMs: givenBack.Milliseconds()},
	))
	if err == nil && outcome == "lost" {
		return ErrExportLost
	}
	return err
}

func (j *ExportJob) load(f rediskv.Fields) error {
	e, err := exportOf(j.space.Object(j.ID), f)
	if err != nil {
		return err
	}
	r := record.ReadHash("export", j.ID, f)
	e.entry = j.entry
	j.StoredExport, j.Tries = *e, r.Count("tries")
	j.cut, j.low, j.reading, j.passed = f["cut"], r.Count("low"), f["at"], f["at"]
	j.chunks, j.bytes, j.rows, j.left, j.total = int(r.Count("n")), r.Count("bytes"), r.Count("done"), r.Count("left"), r.Count("total")
	if err := r.Err(); err != nil {
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

var scriptAppendExport = script.New[appendExportKeys, appendExportArgs](lua, "append_export")

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
	chunks := j.chunks
	if len(chunk) > 0 {
		chunks++
	}
	var f rediskv.Pairs
	f.Set("at", j.passed)
	f.Int("done", j.rows)
	f.Int("left", j.left)
	f.Int("total", max(j.total-j.left, j.rows))
	f.Int("bytes", j.bytes+int64(len(chunk)))
	f.Set("sha", string(state))
	next := rediskv.Fields{"n": strconv.Itoa(chunks), "start": j.fields["start"]} // by the scripts
	for i := 0; i < len(f); i += 2 {
		next[f[i].(string)], _ = f[i+1].(string)
	}
	f.Set("marks", record.Marks(j.space.Object(j.ID), progressIn(next)...))
	shownBytes := j.shownBytes
	if len(j.preview) != j.shown {
		preview, err := json.Marshal(j.preview, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("export %s: preview: %w", j.ID, err)
		}
		f.Set("prev", string(preview))
		f.Set("psum", previewSum(j.ID, string(preview)))
		shownBytes = len(preview)
	}
	var packed []byte
	if len(chunk) > 0 {
		packed = frames.Pack(chunk)
	}
	inv := scriptAppendExport.With(appendExportKeys{
		exportKeys: exportKeys{j.space.Object(j.ID), rediskv.ExportsKey(j.space.Partition), j.space.Mark(s.db.NewID(""))},
		Chunk:      j.space.Chunk(j.ID, j.chunks), Ends: j.space.Ends(j.ID), Sizes: j.space.ExportSizes(), Files: j.space.ExportFiles(),
	}, appendExportArgs{
		Owner: j.owner, Chunks: j.chunks, ChunkText: packed, EndOffset: j.bytes + int64(len(chunk)), FileLifetime: chunkBackstop.Milliseconds(),
		Group: rediskv.DispatchGroup, Consumer: j.consumer, Entry: j.entry, ExportID: j.ID,
		Bytes: len(packed) + shownBytes - j.shownBytes, MostBytes: s.db.ExportBytes, NowMs: int64(s.db.Now()), FieldCount: len(f),
	})
	inv.Args = append(inv.Args, f...)
	outcome, _, err := s.db.Run(ctx, inv)
	if err != nil {
		return err
	}
	switch outcome {
	case "lost":
		return ErrExportLost
	case "full":
		return tollgate.ExportsFull(s.db.ExportBytes)
	}
	j.shown, j.shownBytes, j.chunks, j.bytes = len(j.preview), shownBytes, chunks, j.bytes+int64(len(chunk))
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
	if ch.Export.Status == tollgate.ExportStatusSucceeded {
		if err := s.keepChunks(ctx, j); err != nil {
			return err
		}
	}
	b := s.db.NewCommit(rediskv.Caller{Organization: j.Organization}, nil)
	b.Still(j.owner, "HGET", j.space.Object(j.ID), "own")
	b.Still(strconv.Itoa(j.chunks), "HGET", j.space.Object(j.ID), "n")
	err := s.endExport(ctx, b, &j.StoredExport, ch)
	if errors.Is(err, rediskv.ErrConflict) {
		return ErrExportLost
	}
	return err
}

// keepChunks gives every chunk the life of the file.
func (s *Store) keepChunks(ctx context.Context, j *ExportJob) error {
	for first := 0; first < j.chunks; first += chunksAtOnce {
		if err := s.db.Timed(ctx, "keep_chunks", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			kept := []*redis.BoolCmd{pipe.PExpire(ctx, j.space.Ends(j.ID), FileKept)}
			for n := first; n < min(first+chunksAtOnce, j.chunks); n++ {
				kept = append(kept, pipe.PExpire(ctx, j.space.Chunk(j.ID, n), FileKept))
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
