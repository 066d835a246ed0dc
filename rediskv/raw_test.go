package rediskv_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/redistest"
)

// rawClient speaks to Redis beside the store.
func rawClient(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	hosts := strings.Split(strings.TrimPrefix(url, "redis://"), ",")
	for i, h := range hosts {
		hosts[i], _, _ = strings.Cut(h, "/")
	}
	c := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: hosts, ReadTimeout: redistest.Patience})
	t.Cleanup(func() { c.Close() })
	return c
}

func scanKeys(t testing.TB, c redis.UniversalClient, pattern string) (keys []string) {
	t.Helper()
	var mu sync.Mutex
	scan := func(ctx context.Context, node *redis.Client) error {
		it := node.Scan(ctx, 0, pattern, 1000).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			keys = append(keys, it.Val())
			mu.Unlock()
		}
		return it.Err()
	}
	var err error
	switch c := c.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), scan)
	case *redis.Client:
		err = scan(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
