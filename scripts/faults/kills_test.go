package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// killsPause lets a quarter of an hour of kills leave less behind: each start reads all of
// it, and so does the judge.
const killsPause = 150 * time.Millisecond

// TestKills: kill -9 of processes and of Redis, while clients go on.
func TestKills(t *testing.T) {
	p := planned(t, "kills", 200)
	// Both at once: a cluster waits most of the time, for who takes the place.
	for name, kills := range map[string]func(*testing.T, plan){"server": killsOfServer, "cluster": killsOfCluster} {
		one := p
		one.Rand = rand.New(rand.NewPCG(p.seed, uint64(len(name))))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kills(t, one)
		})
	}
}

// killsOfServer: Redis is one server, which comes back with its append-only file.
func killsOfServer(t *testing.T, p plan) {
	redis := redistest.Started(t, redistest.Real)
	w := newWorld(t, p, newSite(t, redis.URL, 3), 2, 2)
	w.pause = killsPause
	w.load(8)
	killed := 0
	for n := range 3 * p.count {
		time.Sleep(time.Duration(p.Int64N(int64(600 * time.Millisecond)))) // any moment will do
		switch n % 3 {
		case 0:
			w.again9(w.serves, p)
		case 1:
			w.again9(w.works, p)
		default:
			redis.Kill()
			time.Sleep(time.Duration(p.Int64N(int64(200 * time.Millisecond))))
			redis.Restart()
			killed++
		}
	}
	w.rest()
	w.quiet()
	w.judge()
	t.Logf("killed: serve %d, work %d, Redis %d times", kills(w.serves), kills(w.works), killed)
}

// killsOfCluster: Redis is a cluster, in which a replica takes the place of its master.
func killsOfCluster(t *testing.T, p plan) {
	c := newCluster(t)
	s := newSite(t, c.URL, 6)
	s.env = append(s.env, "TOLLGATE_REDIS_WAIT_REPLICAS=1")
	w := newWorld(t, p, s, 2, 2)
	w.dirty, w.pause = true, killsPause
	w.load(8)
	slots := c.slots(w.orgs)
	for range p.count {
		c.await("every master has its replica", func() bool { return len(c.masters()) == 3 })
		time.Sleep(time.Duration(p.Int64N(int64(500 * time.Millisecond))))
		slot := slots[p.IntN(len(slots))]
		dies, err := c.master(slot)
		must(t, err)
		c.KillNode(dies)
		// Meanwhile the processes die, too.
		w.again9(w.serves, p)
		w.again9(w.works, p)
		c.await("its replica takes the place", func() bool {
			now, err := c.master(slot)
			return err == nil && now != dies
		})
		c.RestartNode(dies)
	}
	w.rest()
	w.quiet()
	w.judge()
	t.Logf("killed: serve %d, work %d, masters %d times", kills(w.serves), kills(w.works), p.count)
}

// again9 kills one of the processes and starts it again.
func (w *world) again9(places []*place, p plan) {
	w.t.Helper()
	pl := places[p.IntN(len(places))]
	pl.kill()
	pl.start()
}

func kills(places []*place) (n int) {
	for _, pl := range places {
		n += pl.kills
	}
	return n
}
