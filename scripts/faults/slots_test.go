package faults

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestSlots: slots that organizations are in are moved between masters, while clients go
// on.
func TestSlots(t *testing.T) {
	p := planned(t, "slots", 100)
	c := newCluster(t)
	s := newSite(t, c.URL, 6)
	s.env = append(s.env, "TOLLGATE_REDIS_WAIT_REPLICAS=1")
	w := newWorld(t, p, s, 2, 2)
	w.load(8)
	slots := c.slots(w.orgs)
	time.Sleep(3 * time.Second)
	keys, slowest := 0, time.Duration(0)
	for range p.count {
		slot := slots[p.IntN(len(slots))]
		masters := c.masters()
		begun := time.Now()
		keys += c.move(slot, masters[p.IntN(len(masters))])
		slowest = max(slowest, time.Since(begun))
		time.Sleep(time.Duration(p.Int64N(int64(time.Second))))
	}
	w.rest()
	w.quiet()
	w.judge()
	t.Logf("moved: %d slots with %d keys, the slowest within %s", p.count, keys, slowest.Round(time.Millisecond))
}

// move moves a slot to another master, as redis-cli --cluster reshard does.
func (c *cluster) move(slot, to int) (keys int) {
	c.t.Helper()
	from, err := c.master(slot)
	must(c.t, err)
	if from == to {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ids := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		ids[i], err = node.Do(ctx, "CLUSTER", "MYID").Text()
		must(c.t, err)
	}
	must(c.t, c.nodes[to].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from]).Err())
	must(c.t, c.nodes[from].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to]).Err())
	host, port := split(c.addrs[to])
	for {
		some, err := c.nodes[from].ClusterGetKeysInSlot(ctx, slot, 20).Result()
		must(c.t, err)
		if len(some) == 0 {
			break
		}
		keys += len(some)
		command := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
		for _, key := range some {
			command = append(command, key)
		}
		must(c.t, c.nodes[from].Do(ctx, command...).Err())
	}
	// First the one that gets it: should the other one die now, nobody is without.
	must(c.t, c.nodes[to].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err())
	must(c.t, c.nodes[from].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err())
	for _, i := range c.masters() {
		must(c.t, c.nodes[i].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err())
	}
	c.await(fmt.Sprintf("slot %d is where it was moved", slot), func() bool {
		now, err := c.master(slot)
		return err == nil && now == to
	})
	return keys
}
