// Package backup makes copies of a Redis that are consistent, compares them with
// themselves, and puts them back. A copy is a directory: what each master has sent of
// itself, as to a replica, a manifest, and checksums. A partition is whole on one master,
// and so of one moment.
//
// What it says of itself in rediskv.MetaKey, while a copy is put back: restoring (its
// id), restore_step and restore_seed; and afterwards: restored (its id).
package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/store"
)

// ErrNothing: there is nothing to copy.
var ErrNothing = errors.New("this Redis has no data of Tollgate")

// prefix begins the id of a copy.
const prefix = "bak_"

// Options are what a copy is made of, or put back into.
type Options struct {
	Redis rediskv.Options
	// Archive has a store that is made of a copy look into the archive; nil: there is none.
	Archive func(*store.Store)
	// Say is told of what is done; it may be nil.
	Say func(format string, args ...any)
}

// patience is how long a call to Redis may take here, unless the options say otherwise.
const patience = 30 * time.Second

func (o Options) patient() Options {
	o.Redis.Timeout = cmp.Or(o.Redis.Timeout, patience)
	return o
}

func (o *Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(format, args...)
	}
}

// Take makes a copy of a Redis in a directory that is not there yet. It is there when
// all of it is, or not at all.
func Take(ctx context.Context, o Options, dir string) (_ *Copy, err error) {
	o = o.patient()
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("%s is there already", dir)
	}
	db, err := rediskv.Bare(ctx, o.Redis)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	parent := filepath.Dir(dir)
	partial, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".partial-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	c := &Copy{dir: partial}
	c.Format, c.ID = format, db.NewID(prefix)
	if err := c.fetch(ctx, o, db); err != nil {
		return nil, err
	}
	if err := c.readBack(); err != nil {
		return nil, err
	}
	if err := c.finish(); err != nil {
		return nil, err
	}
	if err := errors.Join(settle(partial), os.Rename(partial, dir), settle(parent)); err != nil {
		return nil, err
	}
	c.dir = dir
	return c, nil
}

// fetch has all masters send what they have.
func (c *Copy) fetch(ctx context.Context, o Options, db *rediskv.DB) error {
	if err := c.ask(ctx, db); err != nil {
		return err
	}
	before, err := slotMap(ctx, db)
	if err != nil {
		return err
	}
	masters, err := mastersOf(ctx, db)
	if err != nil {
		return err
	}
	c.Files = make([]File, len(masters))
	errs := make([]error, len(masters))
	var all sync.WaitGroup
	for i, master := range masters {
		c.Files[i] = File{Name: "master-" + strconv.Itoa(i+1) + ".rdb", Database: master.DB}
		all.Go(func() {
			o.say("copying %s", master.Addr)
			errs[i] = c.receive(ctx, master, &c.Files[i])
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	after, err := slotMap(ctx, db)
	if err == nil && before != after {
		err = errors.New("slots of the cluster moved, or a master changed, while they were copied: make another copy when the cluster is at rest")
	}
	return err
}

// ask asks a Redis what is to be known beside the data.
func (c *Copy) ask(ctx context.Context, db *rediskv.DB) error {
	return db.Timed(ctx, "prepare_backup", func(ctx context.Context) error {
		meta, err := db.Redis.HGetAll(ctx, rediskv.MetaKey).Result()
		switch {
		case err != nil:
			return err
		case meta[history.Restoring] != "":
			return fmt.Errorf("%w: it is not complete", history.ErrRestoring)
		}
		if c.Partitions, err = strconv.Atoi(meta["partitions"]); err != nil || c.Partitions < 1 {
			return ErrNothing
		}
		c.SecretKey = meta[rediskv.SealedByField]
		now, err := db.Redis.Time(ctx).Result()
		if err != nil {
			return err
		}
		c.TakenAt = tollgate.At(now)
		info, _ := db.Redis.Info(ctx, "server").Result() // not every one says
		_, version, _ := strings.Cut(info, "redis_version:")
		c.RedisVersion, _, _ = strings.Cut(version, "\r")
		return nil
	})
}

// mastersOf are the options by which each master is reached, in the order of addresses.
func mastersOf(ctx context.Context, db *rediskv.DB) (list []*redis.Options, err error) {
	switch c := db.Redis.(type) {
	case *redis.ClusterClient:
		var one sync.Mutex
		err = c.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			one.Lock()
			defer one.Unlock()
			list = append(list, master.Options())
			return nil
		})
	case *redis.Client:
		list = append(list, c.Options())
	}
	slices.SortFunc(list, func(a, b *redis.Options) int { return strings.Compare(a.Addr, b.Addr) })
	return list, err
}

// slotMap is who has which slot, in an order of its own; "" where there are no slots. A
// slot that is on its way is an error: half of it is here, half there.
func slotMap(ctx context.Context, db *rediskv.DB) (text string, err error) {
	c, ok := db.Redis.(*redis.ClusterClient)
	if !ok {
		return "", nil
	}
	var one sync.Mutex
	var lines []string
	err = c.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		nodes, err := master.ClusterNodes(ctx).Result()
		if err != nil {
			return err
		}
		for line := range strings.Lines(nodes) {
			field := strings.Fields(line)
			if len(field) < 8 || !strings.Contains(field[2], "myself") {
				continue
			}
			if slices.ContainsFunc(field[8:], func(s string) bool { return strings.HasPrefix(s, "[") }) {
				return fmt.Errorf("slots of %s are being moved: make a copy when that has ended", master.Options().Addr)
			}
			one.Lock()
			lines = append(lines, field[0]+" "+strings.Join(field[8:], " "))
			one.Unlock()
		}
		return nil
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n"), err
}

// receive writes what a master sends to a file.
func (c *Copy) receive(ctx context.Context, master *redis.Options, file *File) error {
	f, err := os.OpenFile(filepath.Join(c.dir, file.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := replicate(ctx, master)
	if err != nil {
		return err
	}
	defer l.close()
	defer context.AfterFunc(ctx, l.close)()
	h := sha256.New()
	size := &counter{}
	if err := l.copyTo(io.MultiWriter(f, h, size), master.Addr); err != nil {
		return err
	}
	file.Size, file.SHA256 = size.n, hex.EncodeToString(h.Sum(nil))
	return errors.Join(f.Sync(), f.Close())
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) { c.n += int64(len(b)); return len(b), nil }

// readBack reads from the files what the manifest says of them.
func (c *Copy) readBack() error {
	have, err := c.take()
	if err != nil {
		return err
	}
	c.Contents = have.contents()
	for i := range c.Files {
		c.Files[i].Keys = have.keys[i]
	}
	for _, f := range c.Files {
		sum, size, err := sumOf(filepath.Join(c.dir, f.Name))
		if err == nil && (sum != f.SHA256 || size != f.Size) {
			err = fmt.Errorf("%s is not what Redis has sent", f.Name)
		}
		if err != nil {
			return err
		}
	}
	if have.meta["partitions"] != strconv.Itoa(c.Partitions) {
		return errors.New("the copy lacks the number of partitions: Redis was emptied meanwhile")
	}
	return nil
}
