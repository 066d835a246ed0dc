package faults

import (
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// partitions: nodes of a cluster do not reach each other, and clients reach all of them. A
// master that the others have given up goes on for some time, and takes changes that its
// replica, which has taken its place, does not have.
func partitions(t *testing.T, p plan) {
	server, gates := redistest.PartitionedCluster(t)
	c := clusterOf(t, server)
	s := newSite(t, c.URL, 6)
	s.env = append(s.env, "TOLLGATE_REDIS_WAIT_REPLICAS=1")
	w := newWorld(t, p, s, 2, 2)
	w.dirty = true
	w.load(8)
	slots := c.slots(w.orgs)
	did := map[string]int{}
	for n := range max(1, p.count/10) {
		slot := slots[p.IntN(len(slots))]
		master, err := c.master(slot)
		must(t, err)
		replica := c.replicaOf(master)
		switch n % 3 {
		case 0: // the others give it up
			for other := range c.nodes {
				if other != master {
					gates.Shut(master, other)
				}
			}
			c.await("its replica takes the place", func() bool {
				now, err := c.others(master, slot)
				return err == nil && now == replica
			})
			did["master"]++
		case 1: // its changes are acknowledged by nobody
			gates.Shut(master, replica)
			did["replica"]++
		default: // both are cut off, and nobody may take the place
			for other := range c.nodes {
				if other != master && other != replica {
					gates.Shut(master, other)
					gates.Shut(replica, other)
				}
			}
			did["both"]++
		}
		time.Sleep(time.Duration(p.Int64N(int64(5 * time.Second)))) // any moment will do
		gates.Open()
		c.await("every master has its replica", func() bool { return len(c.masters()) == 3 })
	}
	w.rest()
	w.quiet()
	w.judge()
	t.Logf("partitions: %v", did)
}

// replicaOf is the replica of a master.
func (c *cluster) replicaOf(master int) int {
	c.t.Helper()
	for i := range c.nodes {
		if c.follows(i, c.addrs[master]) {
			return i
		}
	}
	c.t.Fatalf("%s has no replica", c.addrs[master])
	return 0
}
