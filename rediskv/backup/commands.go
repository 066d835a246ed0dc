package backup

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/peer"
	"tollgate/rediskv/rdb"
)

const (
	// most is how many items a command has, and large from how many bytes on what has
	// been queued is sent.
	most  = 512
	large = 1 << 20
)

// writer writes values with the plain commands that every Redis has.
type writer struct {
	client peer.Client
	// embedded: it is the one in this process, which knows fewer commands.
	embedded bool

	pipe   redis.Pipeliner
	queued int64
}

// put writes a value instead of any that is there.
func (w *writer) put(ctx context.Context, v *rdb.Value) error {
	if w.pipe == nil {
		w.pipe = w.client.Pipeline()
	}
	w.pipe.Del(ctx, v.Key)
	w.value(ctx, v)
	if v.Expires > 0 {
		w.pipe.Do(ctx, "PEXPIREAT", v.Key, v.Expires)
	}
	// All commands of a key are sent together: they are what is sent again after a
	// broken connection, and begin with DEL.
	if w.queued += weight(v) + 64; w.queued >= large || w.pipe.Len() >= most {
		return w.flush(ctx)
	}
	return nil
}

// flush sends what has been queued.
func (w *writer) flush(ctx context.Context) error {
	if w.pipe == nil {
		return nil
	}
	_, err := w.pipe.Exec(ctx)
	w.pipe, w.queued = nil, 0
	return err
}

func (w *writer) value(ctx context.Context, v *rdb.Value) {
	switch v.Type {
	case rdb.String:
		w.pipe.Set(ctx, v.Key, v.Items[0], 0)
	case rdb.List:
		w.many(ctx, "RPUSH", v.Key, v.Items)
	case rdb.Set:
		w.many(ctx, "SADD", v.Key, v.Items)
	case rdb.Hash:
		w.many(ctx, "HSET", v.Key, v.Items)
	case rdb.ZSet:
		scored := make([]string, len(v.Items))
		for i := 0; i+1 < len(v.Items); i += 2 {
			scored[i], scored[i+1] = v.Items[i+1], v.Items[i]
		}
		w.many(ctx, "ZADD", v.Key, scored)
	case rdb.Log:
		w.stream(ctx, v.Key, v.Stream)
	}
}

func (w *writer) do(ctx context.Context, name, key string, words ...string) {
	args := make([]any, 0, 2+len(words))
	args = append(args, name, key)
	for _, word := range words {
		args = append(args, word)
	}
	w.pipe.Do(ctx, args...)
}

func (w *writer) many(ctx context.Context, name, key string, items []string) {
	for len(items) > 0 {
		n := min(most, len(items)) // which is even
		w.do(ctx, name, key, items[:n]...)
		items = items[n:]
	}
}

// nobody is a group that makes a stream without entries, and goes.
const nobody = "restore"

func (w *writer) stream(ctx context.Context, key string, s *rdb.Stream) {
	for _, e := range s.Entries {
		w.do(ctx, "XADD", key, append([]string{e.ID.String()}, e.Fields...)...)
	}
	if len(s.Entries) == 0 {
		w.pipe.Do(ctx, "XGROUP", "CREATE", key, nobody, "0", "MKSTREAM")
		w.pipe.Do(ctx, "XGROUP", "DESTROY", key, nobody)
	}
	if !w.embedded {
		w.do(ctx, "XSETID", key, s.Last.String(), "ENTRIESADDED", strconv.FormatUint(s.Added, 10), "MAXDELETEDID", s.Deleted.String())
	}
	for _, g := range s.Groups {
		w.group(ctx, key, &g)
	}
}

func (w *writer) group(ctx context.Context, key string, g *rdb.Group) {
	create := []any{"XGROUP", "CREATE", key, g.Name, g.Last.String()}
	if g.Read >= 0 && !w.embedded {
		create = append(create, "ENTRIESREAD", g.Read)
	}
	w.pipe.Do(ctx, create...)
	for _, c := range g.Consumers {
		w.pipe.Do(ctx, "XGROUP", "CREATECONSUMER", key, g.Name, c.Name)
		for _, p := range c.Pending {
			w.pipe.Do(ctx, "XCLAIM", key, g.Name, c.Name, 0, p.ID.String(), "TIME", p.Delivered, "RETRYCOUNT", p.Count, "FORCE", "JUSTID")
		}
	}
}
