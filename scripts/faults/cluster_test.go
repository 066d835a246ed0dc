package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/redistest"
)

// cluster is a Redis Cluster of three masters with a replica each.
type cluster struct {
	*redistest.Server
	t     *testing.T
	addrs []string
	nodes []*redis.Client // each node's own
}

func newCluster(t *testing.T) *cluster { return clusterOf(t, redistest.ReplicatedCluster(t)) }

func clusterOf(t *testing.T, server *redistest.Server) *cluster {
	c := &cluster{Server: server, t: t}
	c.addrs = strings.Split(strings.TrimPrefix(c.URL, "redis://"), ",")
	for _, at := range c.addrs {
		c.nodes = append(c.nodes, connect(t, at))
	}
	c.await("every master has its replica", func() bool { return len(c.masters()) == 3 })
	return c
}

// connect is a client of one Redis that asks once.
func connect(t *testing.T, at string) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: at, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true, DialTimeout: time.Second, ReadTimeout: 5 * time.Second,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// masters are the nodes that are masters with a replica that has all they have.
func (c *cluster) masters() (whole []int) {
	for i, node := range c.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		info, err := node.Info(ctx, "replication").Result()
		cancel()
		if err == nil && strings.Contains(info, "role:master") && strings.Contains(info, "state=online") {
			whole = append(whole, i)
		}
	}
	return whole
}

// follows reports whether a node is the replica of another one.
func (c *cluster) follows(node int, master string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	info, err := c.nodes[node].Info(ctx, "replication").Result()
	host, port := split(master)
	return err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, "master_host:"+host+"\r\nmaster_port:"+port+"\r\n")
}

// await waits for what the cluster does by itself.
func (c *cluster) await(what string, done func() bool) {
	c.t.Helper()
	for until := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			c.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// master is who has a slot.
func (c *cluster) master(slot int) (node int, err error) { return c.others(-1, slot) }

// slots are those of the organizations: of the partitions that they are in.
func (c *cluster) slots(orgs []*org) (all []int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.addrs})
	defer client.Close()
	for p := range 64 {
		key := fmt.Sprintf("{p%02d}:organizations", p)
		if n, err := client.SCard(ctx, key).Result(); err == nil && n > 0 {
			slot, err := client.ClusterKeySlot(ctx, key).Result()
			must(c.t, err)
			all = append(all, int(slot))
		}
	}
	if len(all) == 0 || len(all) > len(orgs) {
		c.t.Fatalf("%d organizations are in %d slots", len(orgs), len(all))
	}
	return all
}

func split(at string) (host, port string) {
	host, port, _ = strings.Cut(at, ":")
	return host, port
}
