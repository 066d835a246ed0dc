package shelves

import (
	"context"
	"sync"

	"tollgate/rediskv/packs/shelf"
)

// window is how much is read at once of a pack that is read from its beginning to its end: a
// bucket takes as long for a few KB.
const window = 4 << 20

// ahead is an object of which one reader reads all, part by part. Others may, too, but that
// is slow.
type ahead struct {
	shelf.Object
	lock sync.Mutex
	from int64 // where what it had begins
	had  []byte
}

// ReadAhead has an object read in windows, by one reader who reads all of it.
func ReadAhead(o shelf.Object) shelf.Object { return &ahead{Object: o} }

// ReadAt reads from what it had, or a window from an offset on.
func (a *ahead) ReadAt(ctx context.Context, p []byte, off int64) error {
	size := int64(len(p))
	if size > window || off < 0 || off > a.Size()-size {
		return a.Object.ReadAt(ctx, p, off)
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	if off < a.from || off+size > a.from+int64(len(a.had)) {
		next := make([]byte, min(window, a.Size()-off))
		if err := a.Object.ReadAt(ctx, next, off); err != nil {
			return err
		}
		a.from, a.had = off, next
	}
	copy(p, a.had[off-a.from:])
	return nil
}
