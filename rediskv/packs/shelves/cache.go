package shelves

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
)

// mostOpen is how many packs are open at once, each with its index.
const mostOpen = 64

// Cache has packs that are open, and frames of them as long as there is room.
type Cache struct {
	shelves []shelf.Shelf
	lock    sync.Mutex
	open    *simplelru.LRU[openKey, *opened]
	room    int // bytes of frames
	taken   int
	frame   *simplelru.LRU[frameKey, *packs.Frame]
	flights singleflight.Group // what is being read
}

type opened struct {
	*packs.Pack
	object shelf.Object
	users  int
	gone   bool // it is to be closed when nobody uses it any more
}

type openKey struct {
	shelf int
	pack  string
}

type frameKey struct {
	pack string
	n    int
}

// NewCache is one of packs that are on each of some shelves, with room for so many bytes of frames.
func NewCache(shelves []shelf.Shelf, room int) *Cache {
	c := &Cache{shelves: shelves, room: room}
	c.open, _ = simplelru.NewLRU(mostOpen, func(_ openKey, o *opened) {
		o.gone = true
		c.settle(o)
	})
	c.frame, _ = simplelru.NewLRU(1<<30, func(_ frameKey, f *packs.Frame) { c.taken -= f.Bytes() })
	return c
}

// settle closes a pack that nobody uses any more. c.lock is held.
func (c *Cache) settle(o *opened) {
	if o.gone && o.users == 0 {
		_ = o.object.Close() // it was only read
	}
}

// Reading is a pack that is open, and its frames from there or from the cache.
type Reading struct {
	*opened
	c  *Cache
	at openKey
}

// Read reads a pack on the first shelf where that can be done. The error is that of the
// first shelf.
func (c *Cache) Read(ctx context.Context, name string, do func(context.Context, *Reading) error) error {
	var failed error
	for i := range c.shelves {
		err := c.readSoon(ctx, openKey{i, name}, do)
		if err == nil {
			return nil
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// Row is a row of a pack, by its identifier, from the first shelf that has it as it was
// written; false where the pack has none. The error is that of the first shelf.
func (c *Cache) Row(ctx context.Context, name, id string) (row []byte, there bool, err error) {
	err = c.Read(ctx, name, func(ctx context.Context, r *Reading) error {
		n, in := r.FrameOf(id)
		if !in {
			row, there = nil, false
			return nil
		}
		f, err := r.Unpacked(ctx, n)
		if err == nil {
			row, there = f.Row(id)
		}
		return err
	})
	return row, there, err
}

// Frames are the entries of a pack's frames, as Row says.
func (c *Cache) Frames(ctx context.Context, name string) (all []packs.Entry, err error) {
	err = c.Read(ctx, name, func(_ context.Context, r *Reading) error {
		all = r.Index().Frames
		return nil
	})
	return all, err
}

// Frame is one of them, by its number.
func (c *Cache) Frame(ctx context.Context, name string, n int) (f *packs.Frame, err error) {
	err = c.Read(ctx, name, func(ctx context.Context, r *Reading) (err error) {
		f, err = r.Unpacked(ctx, n)
		return err
	})
	return f, err
}

// haste is how long a shelf may take while there is another one to be asked.
const haste = 3 * time.Second

// readSoon reads a pack on one shelf, in haste on all but the last.
func (c *Cache) readSoon(ctx context.Context, at openKey, do func(context.Context, *Reading) error) error {
	if at.shelf < len(c.shelves)-1 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, haste)
		defer end()
	}
	o, err := c.pack(ctx, at)
	if err != nil {
		return err
	}
	defer func() {
		c.lock.Lock()
		defer c.lock.Unlock()
		o.users--
		c.settle(o)
	}()
	return do(ctx, &Reading{o, c, at})
}

// Unpacked is a frame of the pack, by its number, which others use, too.
func (r *Reading) Unpacked(ctx context.Context, n int) (f *packs.Frame, err error) {
	key := frameKey{r.at.pack, n}
	if f := r.c.kept(key); f != nil {
		return f, nil
	}
	f, err = alone(ctx, &r.c.flights, fmt.Sprint(r.at.shelf, key), func() (*packs.Frame, error) {
		if f := r.c.kept(key); f != nil { // since it was looked for
			return f, nil
		}
		f, err := r.Frame(ctx, n)
		if err == nil {
			r.c.keep(key, f)
		}
		return f, err
	})
	if err != nil {
		r.c.forget(ctx, r.at, r.opened)
		return nil, err
	}
	return f, nil
}

// kept is a frame that is kept; nil: it is not.
func (c *Cache) kept(key frameKey) *packs.Frame {
	c.lock.Lock()
	defer c.lock.Unlock()
	f, _ := c.frame.Get(key)
	return f
}

// alone has those who want the same at once wait for one of them that reads it. Where that
// one gives up, each of the others goes on by itself.
func alone[T any](ctx context.Context, flights *singleflight.Group, key string, read func() (T, error)) (T, error) {
	v, err, shared := flights.Do(key, func() (any, error) { return read() })
	if err != nil && shared && ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return read()
	}
	one, _ := v.(T)
	return one, err
}

// forget has a pack that cannot be read opened anew by the next reader: it may have been
// healed meanwhile, as another file with the same name. It is not the pack's fault if who
// asked does not wait.
func (c *Cache) forget(ctx context.Context, at openKey, o *opened) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if now, known := c.open.Peek(at); known && now == o && ctx.Err() == nil {
		c.open.Remove(at)
	}
}

// keep keeps a frame, and lets go those that were used longest ago.
func (c *Cache) keep(key frameKey, f *packs.Frame) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.frame.Contains(key) || f.Bytes() > c.room {
		return
	}
	c.frame.Add(key, f)
	for c.taken += f.Bytes(); c.taken > c.room; {
		c.frame.RemoveOldest()
	}
}

// pack opens a pack, and counts its user.
func (c *Cache) pack(ctx context.Context, at openKey) (*opened, error) {
	for {
		c.lock.Lock()
		o, known := c.open.Get(at)
		if known {
			o.users++
		}
		c.lock.Unlock()
		if known {
			return o, nil
		}
		// If it is let go again before it is used, it is opened once more.
		if _, err := alone(ctx, &c.flights, fmt.Sprint(at), func() (bool, error) { return true, c.opens(ctx, at) }); err != nil {
			return nil, err
		}
	}
}

// opens opens a pack that nobody uses yet.
func (c *Cache) opens(ctx context.Context, at openKey) error {
	c.lock.Lock()
	known := c.open.Contains(at) // since it was looked for
	c.lock.Unlock()
	if known {
		return nil
	}
	object, err := c.shelves[at.shelf].Read(ctx, at.pack)
	if err != nil {
		return err
	}
	p, err := packs.Open(ctx, object, object.Size())
	if err != nil {
		return errors.Join(err, object.Close())
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.open.Contains(at) { // somebody was faster
		return object.Close()
	}
	c.open.Add(at, &opened{Pack: p, object: object})
	return nil
}
