package redistest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// join makes a cluster of running, empty nodes and waits until all of them
// agree that it is whole: the first so many are masters, the others their replicas in
// turn. It does what redis-cli --cluster create does, without needing redis-cli.
func join(nodes []*node, masters int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		client := redis.NewClient(nodeOptions(n.addr))
		defer client.Close()
		if i < masters {
			first, last := slots*i/masters, slots*(i+1)/masters-1
			if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
				return fmt.Errorf("give slots to %s: %w", n.addr, err)
			}
		}
		var err error
		if ids[i], err = client.Do(ctx, "CLUSTER", "MYID").Text(); err != nil {
			return fmt.Errorf("ask %s for its id: %w", n.addr, err)
		}
		// Distinct epochs from the start spare the nodes their negotiation.
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("set the epoch of %s: %w", n.addr, err)
		}
	}
	client := redis.NewClient(nodeOptions(nodes[0].addr))
	defer client.Close()
	for _, n := range nodes[1:] {
		if err := client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", port(n.public()), n.bus()).Err(); err != nil {
			return fmt.Errorf("introduce %s: %w", n.addr, err)
		}
	}
	if err := awaitCluster(nodes, masters); err != nil {
		return err
	}
	for i, n := range nodes[masters:] {
		client := redis.NewClient(nodeOptions(n.addr))
		defer client.Close()
		if err := client.ClusterReplicate(ctx, ids[i%masters]).Err(); err != nil {
			return fmt.Errorf("make %s a replica: %w", n.addr, err)
		}
	}
	return nil
}

// awaitCluster returns when every node sees all nodes and all slots served.
func awaitCluster(nodes []*node, masters int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, n := range nodes {
		client := redis.NewClient(nodeOptions(n.addr))
		defer client.Close()
		for {
			info, err := client.ClusterInfo(ctx).Result()
			if err == nil && whole(info, len(nodes), masters) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for the cluster: not whole within %s; %s says (error %v):\n%s", patience, n.addr, err, info)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

func whole(info string, nodes, masters int) bool {
	for _, line := range []string{
		"cluster_state:ok",
		fmt.Sprintf("cluster_slots_ok:%d", slots),
		fmt.Sprintf("cluster_known_nodes:%d", nodes),
		fmt.Sprintf("cluster_size:%d", masters),
	} {
		if !strings.Contains(info, line+"\r\n") {
			return false
		}
	}
	return true
}
