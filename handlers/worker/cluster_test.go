package worker_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// With one organization in each partition of a cluster, all that payments, captures and
// deliveries cost is in the slots of their own partitions: nothing is central, and a node
// has to do what its slots have to do.
func TestNothingIsCentral(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("needs a cluster")
	}
	const all, payments = 64, 12
	server := redistest.Started(t, redistest.Cluster)
	receiver := receiver(t, func(http.ResponseWriter, *http.Request) {}).URL
	shops := onePerPartition(t, server.URL, all)
	for _, s := range shops {
		s.hook(t, receiver, nil, newKey(t, 1, tollgate.SignatureV1))
	}
	metrics := observe()
	shops[0].work(t, worker.Config{Store: openWith(t, rediskv.Options{URL: server.URL, Clock: shops[0].Clock.Now, Partitions: all}), Observer: metrics})
	trade := func(each int) {
		before := metrics.of("attempted succeeded")
		var group sync.WaitGroup
		for n := range 8 {
			group.Go(func() {
				for i := n; i < all; i += 8 {
					for range each {
						shops[i].capturePart(t, shops[i].pay(t, 1000), 400)
					}
				}
			})
		}
		group.Wait()
		until(t, "all deliveries", func() bool { return metrics.of("attempted succeeded") == before+float64(each*all) })
	}
	trade(1) // scripts, connections, caps
	nodes := strings.Split(strings.TrimPrefix(server.URL, "redis://"), ",")
	tallies := make([]*redistest.Tally, len(nodes))
	for i, address := range nodes {
		tallies[i] = redistest.Listen(t, address)
	}
	trade(payments)
	sum, elsewhere := 0, map[string]int{}
	byPartition := map[string]int{}
	for i, counted := range tallies {
		used, partitions, commands := counted.End()
		on := 0
		for tag, n := range partitions {
			byPartition[tag] += n
			on += n
		}
		for name, n := range commands {
			elsewhere[name] += n
		}
		sum += on
		t.Logf("node %d: %d partitions, %d commands there, %.0f for each, %.0f ms of processor time, %.1f for each", i, len(partitions), on, float64(on)/float64(len(partitions)), used, used/float64(len(partitions)))
	}
	if len(byPartition) != all {
		t.Errorf("%d of %d partitions had something to do", len(byPartition), all)
	}
	mean := float64(sum) / all
	for tag, n := range byPartition {
		if share := float64(n) / mean; share < 0.8 || share > 1.25 {
			t.Errorf("%s had %.2f times the commands of the mean, %.0f", tag, share, mean)
		}
	}
	others := 0
	for _, n := range elsewhere {
		others += n
	}
	t.Logf("%d commands in %d partitions, %d elsewhere: %s", sum, all, others, listed(elsewhere))
	if others > sum/100 {
		t.Errorf("%d of %d commands belong to no partition: %s", others, sum+others, listed(elsewhere))
	}
}

// onePerPartition are organizations on one Store, the first in partition 0 and so on.
func onePerPartition(t *testing.T, url string, count int) []*shop {
	t.Helper()
	c := &clock{Clock: testkit.NewClock()}
	c.Set(time.Now())
	store := openWith(t, rediskv.Options{URL: url, Clock: c.Now, Observe: c.observe, Partitions: count})
	shops := make([]*shop, count)
	for p := range shops {
		s := (&testkit.Shop{Store: store, URL: url, Clock: c.Clock}).Another(t, func(o *tollgate.Config) {
			for store.Partition(o.Organization.ID) != p {
				o.Organization.ID = store.NewID(tollgate.PrefixOrganization)
			}
			modest(o)
		})
		shops[p] = &shop{s, c, s.Config.MerchantAccounts[0].ID}
	}
	return shops
}
