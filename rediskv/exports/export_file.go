package exports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/frames"
)

// ExportFile is the file of an export: an io.ReadSeeker that holds one chunk at
// a time.
type ExportFile struct {
	Size int64

	ctx    context.Context
	store  *Store
	caller rediskv.Caller
	space  rediskv.Space
	id     string
	ends   []int64
	offset int64
	chunk  int // the one in data; -1: none
	data   []byte
}

// ExportFile opens the file of an export that has succeeded. Reading asks Redis
// until ctx ends, in a turn of the caller's for each chunk: a client that takes
// its time with what has been read holds none. CodeExportExpired when the file is
// no longer there.
func (s *Store) ExportFile(ctx context.Context, c rediskv.Caller, e *tollgate.Export) (*ExportFile, error) {
	f := &ExportFile{ctx: ctx, store: s, caller: c, space: s.db.Space(c.Organization), id: e.ID, chunk: -1}
	if e.Status != tollgate.ExportStatusSucceeded {
		return nil, tollgate.ExportGone()
	}
	err := s.db.Timed(ctx, "export_ends", func(ctx context.Context) error {
		return s.db.Redis.LRange(ctx, f.space.Ends(e.ID), 0, -1).ScanSlice(&f.ends)
	})
	if err != nil {
		return nil, err
	}
	if n := len(f.ends); n > 0 {
		f.Size = f.ends[n-1]
	}
	if f.Size != e.Result.Bytes {
		return nil, tollgate.ExportGone()
	}
	return f, nil
}

// Seek moves to an offset, which reads nothing yet.
func (f *ExportFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning")
	}
	f.offset = offset
	return offset, nil
}

// Read reads up to the end of a chunk.
func (f *ExportFile) Read(b []byte) (int, error) {
	if f.offset >= f.Size {
		return 0, io.EOF
	}
	// The first chunk that ends behind the offset.
	n, _ := slices.BinarySearch(f.ends, f.offset+1)
	begin := int64(0)
	if n > 0 {
		begin = f.ends[n-1]
	}
	if f.chunk != n {
		if err := f.load(n, f.ends[n]-begin); err != nil {
			return 0, err
		}
	}
	count := copy(b, f.data[f.offset-begin:])
	f.offset += int64(count)
	return count, nil
}

func (f *ExportFile) load(n int, size int64) error {
	f.chunk = -1
	err := f.store.db.TimedInTurn(f.ctx, f.caller, "export_chunk", func(ctx context.Context) error {
		packed, err := f.store.db.Redis.Get(ctx, f.space.Chunk(f.id, n)).Bytes()
		if errors.Is(err, redis.Nil) {
			return tollgate.ExportGone()
		}
		if err != nil {
			return err
		}
		f.data, err = frames.Unpack(packed, f.data[:0])
		if err == nil && int64(len(f.data)) != size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return &tollgate.Error{Code: tollgate.CodeInternal, Message: "The file is damaged.", Cause: fmt.Errorf("export %s: chunk %d: %w", f.id, n, err)}
		}
		return nil
	})
	if err == nil {
		f.chunk = n
	}
	return err
}
