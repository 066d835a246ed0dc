package backup_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/backup"
	"tollgate/rediskv/history"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

// mortal are connections of a process that dies at its last write: in front of it, or
// behind it, so that Redis does what nobody is told of.
type mortal struct {
	writes atomic.Int64
	last   int64
	behind bool
}

func (m *mortal) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if m.dead() {
		return nil, io.ErrClosedPipe
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return &mortalConn{c, m}, err
}

func (m *mortal) dead() bool { return m.writes.Load() >= m.last }

type mortalConn struct {
	net.Conn
	*mortal
}

func (c *mortalConn) Write(b []byte) (int, error) {
	n := c.writes.Add(1)
	if n > c.last || n == c.last && !c.behind {
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

func (c *mortalConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.dead() {
		return 0, io.ErrClosedPipe
	}
	return n, err
}

// A restore that dies at any moment is run again with the same copy and ends as it would
// have. Meanwhile nobody starts on that Redis, and no other copy comes between.
func TestRestoreDies(t *testing.T) {
	t.Parallel()
	from, to := redistest.Replicated(t)
	f := shop(t, from)
	shapes(t, client(t, from))
	before := testkit.State(t, client(t, from))
	kept, _ := taken(t, from)
	other, _ := taken(t, from)
	c := client(t, to)
	died := map[string]int{}
	for n := int64(1); ; n++ {
		must(t, c.FlushAll(t.Context()).Err())
		m := &mortal{last: (n + 1) / 2, behind: n%2 == 0}
		o := options(to.URL)
		o.Redis.Dial, o.Redis.Pool, o.Redis.Timeout = m.dial, 1, 300*time.Millisecond
		failure := backup.Restore(t.Context(), o, kept)
		if failure == nil {
			break
		}
		meta, err := c.HGetAll(t.Context(), rediskv.MetaKey).Result()
		must(t, err)
		died[meta["restore_step"]]++
		if len(meta) > 0 && meta["restored"] == "" {
			_, err := store.Open(t.Context(), rediskv.Options{URL: to.URL, Clock: time.Now, Entropy: rand.Reader})
			if !errors.Is(err, history.ErrRestoring) {
				t.Errorf("write %d: somebody starts: %v", n, err)
			}
			if err := backup.Restore(t.Context(), options(to.URL), other); err == nil || !strings.Contains(err.Error(), "another copy") {
				t.Errorf("write %d: another copy: %v", n, err)
			}
		}
		late, starts := before, ""
		if meta["restore_step"] == "histories" { // a process that has not noticed writes
			must(t, c.Set(t.Context(), "{p03}:string:one", "late", 0).Err())
			late = maps.Clone(before)
			late["{p03}:string:one"] = []any{"string", "late", int64(-1)}
			if c.Exists(t.Context(), rediskv.HistoryKey(0)).Val() == 1 {
				starts = "77"
				must(t, c.HSet(t.Context(), rediskv.HistoryKey(0), "starts", starts).Err())
			}
		}
		if err := backup.Restore(t.Context(), options(to.URL), kept); err != nil && (!errors.Is(err, backup.ErrRestored) || meta["restored"] == "") {
			t.Fatalf("write %d, again: %v", n, err)
		}
		testkit.Restored(t, late, testkit.State(t, c))
		if is := c.HGet(t.Context(), rediskv.HistoryKey(0), "starts").Val(); starts != "" && is != starts {
			t.Errorf("write %d: a history that has begun was written again", n)
		}
		if t.Failed() {
			t.Fatalf("write %d", n)
		}
	}
	if died[""] == 0 || died["data"] == 0 || died["histories"] == 0 {
		t.Errorf("died in %v", died)
	}
	testkit.Restored(t, before, testkit.State(t, c))
	g := f.With(t, rediskv.Options{URL: to.URL, Rules: []tollgate.RuleRef{testkit.CardFee}})
	testkit.Consistent(t, g.Store)
}

// What a restore has begun keeps its name when it is run again, and another restore of
// the same copy gives other names.
func TestHistoriesOfRestores(t *testing.T) {
	from, to := redistest.Replicated(t)
	f := shop(t, from)
	kept, _ := taken(t, from)
	key := rediskv.HistoryKey(f.Space(f.Caller.Organization).Partition)
	c := client(t, to)
	names := map[string]bool{}
	for range 2 {
		must(t, c.FlushAll(t.Context()).Err())
		must(t, backup.Restore(t.Context(), options(to.URL), kept))
		id := c.HGet(t.Context(), key, "id").Val()
		names[id] = true
	}
	if len(names) != 2 {
		t.Errorf("%v", names)
	}
}
