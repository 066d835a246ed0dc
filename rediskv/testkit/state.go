package testkit

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// State is all that a Redis has, by what commands say of it.
func State(t testing.TB, c rediskv.Client) map[string]any {
	t.Helper()
	ctx := t.Context()
	all := map[string]any{}
	var mu sync.Mutex // masters are asked at once
	scan := func(ctx context.Context, node redis.Cmdable) error {
		keys, err := node.Keys(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		for _, key := range keys {
			all[key] = nil
		}
		return err
	}
	if cluster, ok := c.(*redis.ClusterClient); ok {
		check(t, cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) }))
	} else {
		check(t, scan(ctx, c))
	}
	for key := range all {
		kind, err := c.Type(ctx, key).Result()
		check(t, err)
		var is any
		switch kind {
		case "string":
			is, err = c.Get(ctx, key).Result()
		case "list":
			is, err = c.LRange(ctx, key, 0, -1).Result()
		case "hash":
			is, err = c.HGetAll(ctx, key).Result()
		case "zset":
			is, err = c.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "set":
			var members []string
			members, err = c.SMembers(ctx, key).Result()
			slices.Sort(members)
			is = members
		case "stream":
			is, err = streamState(ctx, c, key)
		}
		check(t, err)
		expires, err := c.Do(ctx, "PEXPIRETIME", key).Int64()
		check(t, err)
		all[key] = []any{kind, is, expires}
	}
	return all
}

// streamState is a stream with its groups; not how it is divided, nor when a consumer
// was last seen, which no command writes.
func streamState(ctx context.Context, c rediskv.Client, key string) (any, error) {
	entries, err := c.Do(ctx, "XRANGE", key, "-", "+").Result()
	if err != nil {
		return nil, err
	}
	full, err := c.XInfoStreamFull(ctx, key, 0).Result()
	if err != nil {
		return nil, err
	}
	for i := range full.Groups {
		slices.SortFunc(full.Groups[i].Consumers, func(a, b redis.XInfoStreamConsumer) int { return strings.Compare(a.Name, b.Name) })
		for j := range full.Groups[i].Consumers {
			full.Groups[i].Consumers[j].SeenTime, full.Groups[i].Consumers[j].ActiveTime = time.Time{}, time.Time{}
		}
	}
	slices.SortFunc(full.Groups, func(a, b redis.XInfoStreamGroup) int { return strings.Compare(a.Name, b.Name) })
	return []any{entries, full.Length, full.LastGeneratedID, full.MaxDeletedEntryID, full.EntriesAdded, full.Groups}, nil
}

// Restored compares what was put back, by State, with what there was.
func Restored(t testing.TB, before, after map[string]any) {
	t.Helper()
	for key, is := range after {
		if _, ok := before[key]; !ok {
			t.Errorf("%s was not there: %.300v", key, is)
		}
	}
	for key, was := range before {
		switch is, ok := after[key]; {
		case strings.HasSuffix(key, ":history"), key == rediskv.MetaKey: // elsewhere
		case strings.Contains(key, "heartbeat"), strings.HasPrefix(key, "tollgate:instance"), key == rediskv.SecretsKey, strings.Contains(key, ":history:op:"), strings.Contains(key, ":rate:"), strings.Contains(key, ":postings"):
			if ok {
				t.Errorf("%s is of processes that are gone, or is made again", key)
			}
		case !ok:
			if expires := was.([]any)[2].(int64); expires < 0 || expires > time.Now().UnixMilli() {
				t.Errorf("%s is gone", key)
			}
		case !reflect.DeepEqual(was, is):
			t.Errorf("%s:\nwas %.600v\nis  %.600v", key, was, is)
		}
	}
}
