package faults

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/redistest"
)

// TestNetwork: what lies between processes and Redis fails, Redis is full or set up badly,
// nodes of a cluster do not answer, and copies are put back.
func TestNetwork(t *testing.T) {
	p := planned(t, "network", 200)
	t.Run("wires", func(t *testing.T) { wires(t, p) })
	t.Run("nodes", func(t *testing.T) { hungNodes(t, p) })
	t.Run("partitions", func(t *testing.T) { partitions(t, p) })
	t.Run("disk", func(t *testing.T) { fullDisk(t, p) })
	t.Run("clocks", func(t *testing.T) { clocks(t, p) })
}

// wires: each process has its own way to Redis. Meanwhile Redis is full now and then, and
// copies are made.
func wires(t *testing.T, p plan) {
	server := redistest.Started(t, redistest.Real)
	w := newWorld(t, p, newSite(t, server.URL, 3), 0, 0)
	w.pause = 400 * time.Millisecond // each copy has all that there is, and is checked
	var ways []*redistest.Wire
	for _, name := range []string{"serve", "serve", "work", "work"} {
		way := redistest.Proxy(t, server.Addr)
		pl := newPlace(t, name, append(append([]string(nil), w.env...), "TOLLGATE_REDIS_URL="+way.URL))
		ways = append(ways, way)
		if name == "serve" {
			w.serves = append(w.serves, pl)
		} else {
			w.works = append(w.works, pl)
		}
	}
	w.load(8)
	direct := connect(t, server.Addr)
	did := map[string]int{}
	for n := range p.count {
		time.Sleep(time.Duration(p.Int64N(int64(300 * time.Millisecond))))
		if n%20 == 10 {
			w.full(direct, p)
			did["full"]++
			continue
		}
		did[w.disturb(ways[p.IntN(len(ways))], p)]++
	}
	w.evicting(direct)
	w.copies(max(1, p.count/20))
	w.quiet()
	w.judge()
	t.Logf("%v, and %d copies put back", did, max(1, p.count/20))
}

// disturb has one process' way to Redis fail, in one way or another.
func (w *world) disturb(way *redistest.Wire, p plan) (how string) {
	way.Reset()
	length := time.Duration(p.Int64N(int64(3 * time.Second)))
	switch p.IntN(5) {
	case 0:
		way.Cut()
		return "cut"
	case 1: // silence, as of a network that loses every packet
		way.Pause()
		time.Sleep(length)
		way.Resume()
		return "silent"
	case 2:
		way.Refuse()
		time.Sleep(length)
		way.Accept()
		return "refused"
	case 3:
		way.Delay(time.Duration(p.Int64N(int64(400 * time.Millisecond))))
		time.Sleep(length)
		way.Delay(0)
		return "slow"
	default:
		for range 3 {
			way.SwallowReply("EVALSHA")
		}
		return "reply lost"
	}
}

// full: Redis has no memory left for some time. Requests that need some are not carried
// out, and carried out when there is some again.
func (w *world) full(direct *redis.Client, p plan) {
	w.t.Helper()
	ctx := context.Background()
	must(w.t, direct.ConfigSet(ctx, "maxmemory", "1mb").Err())
	time.Sleep(time.Duration(500+p.IntN(1500)) * time.Millisecond)
	must(w.t, direct.ConfigSet(ctx, "maxmemory", "0").Err())
}

// evicting: Redis is told to throw away what was not used for long. doctor says so at
// once, and /readyz within its minute.
func (w *world) evicting(direct *redis.Client) {
	w.t.Helper()
	ctx := context.Background()
	must(w.t, direct.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	env := append(append([]string(nil), w.env...), "TOLLGATE_ADDR=127.0.0.1:0")
	if code, stdout, stderr := program.Try(w.t, env, "doctor"); code != 1 || !strings.Contains(stdout, "allkeys-lru") {
		w.fail("Redis evicts, and tollgate doctor says (exit code %d)\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := program.Try(w.t, append(env, "TOLLGATE_REDIS_WAIT=2s"), "serve"); code == 0 {
		w.fail("Redis evicts, and tollgate serve starts: %s", stderr)
	}
	w.awaitLong("readyz tells that Redis evicts", func() bool {
		a, err := w.readyz()
		return err == nil && (a.StatusCode == 503 || strings.Contains(a.Text, `"policy":"fail"`))
	})
	must(w.t, direct.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	w.awaitLong("all is well again", func() bool {
		a, err := w.readyz()
		return err == nil && a.StatusCode == 200
	})
}

// readyz is what one of the instances says of itself.
func (w *world) readyz() (clitest.Answer, error) {
	return clitest.Send(context.Background(), "", http.MethodGet, "http://"+w.serves[0].addr+"/readyz", "")
}

// awaitLong is for what processes look at once a minute.
func (w *world) awaitLong(what string, done func() bool) {
	w.t.Helper()
	for until := time.Now().Add(90 * time.Second); !done(); time.Sleep(time.Second) {
		if time.Now().After(until) {
			w.fail("not within a minute and a half: %s", what)
			return
		}
	}
}

// copies makes copies under load and puts each back into an empty Redis. What was
// acknowledged before a copy was begun is in it.
func (w *world) copies(count int) {
	w.t.Helper()
	w.seldom.Store(true)
	defer w.seldom.Store(false)
	for range count {
		w.mu.Lock()
		before := map[*org][]*ask{}
		for o, asks := range w.asks {
			for _, a := range asks {
				if a.Kind == "create" && a.Made() {
					before[o] = append(before[o], a)
				}
			}
		}
		w.mu.Unlock()
		dir := filepath.Join(w.t.TempDir(), "copy")
		begun := time.Now()
		program.Run(w.t, w.env, "backup", dir)
		w.t.Logf("a copy with %d changes was made and checked in %s", w.made(), time.Since(begun).Round(time.Millisecond))
		program.Run(w.t, w.env, "backup", "verify", dir)
		empty := redistest.Started(w.t, redistest.Real)
		env := append(append([]string(nil), w.env...), "TOLLGATE_REDIS_URL="+empty.URL)
		program.Run(w.t, env, "restore", dir)
		if code, stdout, stderr := program.Try(w.t, env, "check"); code != 0 {
			w.fail("tollgate check of a copy: exit code %d\n%s%s", code, stdout, stderr)
		}
		serve := newPlace(w.t, "serve", env)
		for o, asks := range before {
			reading := &org{id: o.id, client: o.client}
			for _, a := range asks[max(0, len(asks)-20):] {
				said, err := w.once(reading, "http://"+serve.addr, "GET", "/v1/payments/"+a.ID, "", "")
				if err != nil || said.status != 200 || said.amount("amount") != a.Minor {
					w.fail("payment %s of %d was acknowledged before the copy, and in it is: %d %s %v", a.ID, a.Minor, said.status, said.text, err)
				}
			}
		}
		serve.kill()
		empty.Stop()
	}
}

// hungNodes: a master takes connections and answers nothing, longer than its cluster waits,
// and then goes on as if nothing had been.
func hungNodes(t *testing.T, p plan) {
	c := newCluster(t)
	s := newSite(t, c.URL, 6)
	s.env = append(s.env, "TOLLGATE_REDIS_WAIT_REPLICAS=1")
	w := newWorld(t, p, s, 2, 1)
	w.dirty = true
	w.load(8)
	slots := c.slots(w.orgs)
	count := max(1, p.count/10)
	for range count {
		slot := slots[p.IntN(len(slots))]
		hangs, err := c.master(slot)
		must(t, err)
		c.HangNode(hangs)
		if p.IntN(3) > 0 {
			c.await("its replica takes the place", func() bool {
				now, err := c.others(hangs, slot)
				return err == nil && now != hangs
			})
		}
		time.Sleep(time.Duration(p.Int64N(int64(time.Second))))
		c.ResumeNode(hangs)
		c.await("every master has its replica", func() bool { return len(c.masters()) == 3 })
	}
	w.rest()
	w.quiet()
	w.judge()
	t.Logf("hung: %d masters", count)
}

// others is who has a slot, as the nodes but one see it.
func (c *cluster) others(but, slot int) (node int, err error) {
	for i := range c.nodes {
		if i == but {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		shards, err := c.nodes[i].ClusterShards(ctx).Result()
		cancel()
		if err != nil {
			continue
		}
		for _, shard := range shards {
			has := slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return r.Start <= int64(slot) && int64(slot) <= r.End })
			for _, one := range shard.Nodes {
				if n := slices.Index(c.addrs, fmt.Sprintf("%s:%d", one.IP, one.Port)); has && one.Role == "master" && n >= 0 {
					return n, nil
				}
			}
		}
	}
	return 0, fmt.Errorf("nobody says who has slot %d", slot)
}
