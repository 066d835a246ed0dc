package backup_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/backup"
	"tollgate/rediskv/redistest"
)

// A slot on its way, or that moves while its masters are copied, is half here and half
// there: there is no copy then.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	s := redistest.Started(t, redistest.Cluster)
	shop(t, s)
	cluster := client(t, s).(*redis.ClusterClient)
	var one sync.Mutex
	masters := map[string]*redis.Client{} // by id
	must(t, cluster.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
		one.Lock()
		defer one.Unlock()
		id, err := master.Do(ctx, "CLUSTER", "MYID").Text()
		masters[id] = master
		return err
	}))
	const slot = 0 // of the first node, and nothing is in it
	var from, to string
	for id, master := range masters {
		if master.Options().Addr == s.Addr {
			from = id
		} else {
			to = id
		}
	}
	do := func(id string, words ...any) {
		must(t, masters[id].Do(context.Background(), append([]any{"CLUSTER", "SETSLOT", slot}, words...)...).Err())
	}
	dir := filepath.Join(t.TempDir(), "copy")
	do(from, "MIGRATING", to)
	if _, err := backup.Take(t.Context(), options(s.URL), dir); err == nil || !strings.Contains(err.Error(), "being moved") {
		t.Errorf("a slot is on its way: %v", err)
	}
	do(from, "STABLE")

	o := options(s.URL)
	var moves sync.Once
	o.Say = func(string, ...any) {
		moves.Do(func() {
			do(to, "NODE", to)
			do(from, "NODE", to)
		})
	}
	if _, err := backup.Take(t.Context(), o, dir); err == nil || !strings.Contains(err.Error(), "slots of the cluster moved") {
		t.Errorf("a slot moves meanwhile: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := backup.Take(t.Context(), options(s.URL), dir); err != nil {
		t.Errorf("at rest again: %v", err)
	}
}
