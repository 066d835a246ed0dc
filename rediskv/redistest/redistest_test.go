package redistest_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/redistest"
)

func TestURLServes(t *testing.T) {
	client := connect(t, redistest.URL(t))
	for _, key := range []string{"{p00}:a", "{p21}:a", "{p63}:a"} { // three slots
		if err := client.Set(t.Context(), key, t.Name(), 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := client.Get(t.Context(), key).Result(); err != nil || got != t.Name() {
			t.Fatalf("GET %s = %q, %v", key, got, err)
		}
	}
}

// A server is lent to one test at a time, and empty when the next one has it.
func TestURLIsEmptyAndOnesOwn(t *testing.T) {
	var lent [2]map[string]bool
	for round := range lent {
		lent[round] = make(map[string]bool)
		t.Run("", func(t *testing.T) {
			for i := range 2 {
				url := redistest.URL(t)
				lent[round][url] = true
				client := connect(t, url)
				for _, key := range []string{"{p00}", "{p21}", "{p63}"} { // three nodes
					if was, err := client.Get(t.Context(), key).Result(); err != redis.Nil {
						t.Errorf("round %d, server %d: %s holds %q, %v", round, i, key, was, err)
					}
					if err := client.Set(t.Context(), key, t.Name(), 0).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
	if len(lent[0]) != 2 || len(lent[1]) != 2 {
		t.Errorf("lent to two at once: %v", lent)
	}
	if redistest.Kind(t) != redistest.Miniredis && !maps.Equal(lent[0], lent[1]) {
		t.Errorf("servers are not used again: %v", lent)
	}
}

func TestRealServersAreDurableAndNeverEvict(t *testing.T) {
	if redistest.Kind(t) == redistest.Miniredis {
		t.Skip("miniredis has no settings")
	}
	for _, addr := range strings.Split(strings.TrimPrefix(redistest.URL(t), "redis://"), ",") {
		client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: redistest.Patience})
		defer client.Close()
		for name, want := range map[string]string{"appendonly": "yes", "maxmemory-policy": "noeviction", "bind": "127.0.0.1"} {
			if got := client.ConfigGet(t.Context(), name).Val()[name]; got != want {
				t.Errorf("%s: %s is %q, want %q", addr, name, got, want)
			}
		}
	}
}

func TestFreshIsEmptyAndOnesOwn(t *testing.T) {
	a, b := redistest.Fresh(t), redistest.Fresh(t)
	if err := connect(t, a.URL).Set(t.Context(), "key", "a", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := connect(t, b.URL).Get(t.Context(), "key").Err(); err != redis.Nil {
		t.Fatalf("the second server has the first one's key: %v", err)
	}
}

func TestKillAndRestartKeepWhatWasAcknowledged(t *testing.T) {
	server := redistest.Fresh(t)
	client := connect(t, server.URL)
	sha, err := client.ScriptLoad(t.Context(), "return redis.call('GET', KEYS[1])").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"{p00}", "{p21}", "{p63}"} {
		if err := client.Set(t.Context(), key, "kept", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}

	server.Kill()
	for _, addr := range strings.Split(strings.TrimPrefix(server.URL, "redis://"), ",") {
		if err := ping(t, addr); err == nil {
			t.Fatalf("%s answers after Kill", addr)
		}
	}

	server.Restart()
	client = connect(t, server.URL)
	for _, key := range []string{"{p00}", "{p21}", "{p63}"} {
		if got, err := client.Get(t.Context(), key).Result(); err != nil || got != "kept" {
			t.Fatalf("GET %s after Restart = %q, %v", key, got, err)
		}
	}
	if err := client.EvalSha(t.Context(), sha, []string{"{p00}"}).Err(); err == nil || !strings.Contains(err.Error(), "NOSCRIPT") {
		t.Fatalf("EVALSHA after Restart: %v, want NOSCRIPT", err)
	}
}

func TestStopTwice(t *testing.T) {
	server := redistest.Fresh(t)
	server.Stop()
	server.Stop()
	if err := ping(t, server.Addr); err == nil {
		t.Fatal("the server answers after Stop")
	}
}

func TestKillNodeLeavesTheOthers(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("needs a cluster")
	}
	server := redistest.Fresh(t)
	addrs := strings.Split(strings.TrimPrefix(server.URL, "redis://"), ",")
	server.KillNode(1)
	for i, addr := range addrs {
		if err := ping(t, addr); (err == nil) == (i == 1) {
			t.Errorf("node %d after KillNode(1): %v", i, err)
		}
	}
	server.RestartNode(1)
	if err := connect(t, server.URL).Set(t.Context(), "{p21}", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// eventually waits up to a minute.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// A master that is gone is replaced by its replica, which has what was acknowledged.
func TestReplicatedClusterReplacesAMaster(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("it takes some seconds, and the suite runs on a cluster too")
	}
	server := redistest.ReplicatedCluster(t)
	client := connect(t, server.URL).(*redis.ClusterClient)
	keys := []string{"{p00}", "{p21}", "{p63}"} // three masters
	for _, key := range keys {
		eventually(t, key+" is on a replica", func() bool {
			master, err := client.MasterForKey(t.Context(), key)
			return err == nil && client.Set(t.Context(), key, key, 0).Err() == nil && master.Wait(t.Context(), 1, time.Second).Val() == 1
		})
	}
	server.KillNode(0)
	for _, key := range keys {
		eventually(t, key+" is there", func() bool { return client.Get(t.Context(), key).Val() == key })
		eventually(t, key+" can be written", func() bool { return client.Set(t.Context(), key, "again", 0).Err() == nil })
	}
}

// A master that the other nodes do not reach is given up by them, and belongs to them
// again when the gates open.
func TestPartitionedClusterGivesAMasterUp(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("it takes some seconds, and the suite runs on a cluster too")
	}
	server, gates := redistest.PartitionedCluster(t)
	client := connect(t, server.URL).(*redis.ClusterClient)
	all := []string{"{p00}", "{p21}", "{p63}"} // three masters
	for _, key := range all {
		eventually(t, key+" can be written", func() bool { return client.Set(t.Context(), key, key, 0).Err() == nil })
	}
	saying := func(flags string) (nodes int) {
		var mu sync.Mutex
		_ = client.ForEachShard(t.Context(), func(ctx context.Context, node *redis.Client) error {
			said := node.ClusterNodes(ctx).Val()
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(said, flags) {
				nodes++
			}
			return nil
		})
		return nodes
	}
	for other := 1; other < 6; other++ {
		gates.Shut(0, other) // it is a master
	}
	eventually(t, "the others give it up", func() bool { return saying("master,fail ") > 2 })
	gates.Open()
	eventually(t, "nobody does any more", func() bool { return saying("fail ") == 0 })
	for _, key := range all {
		eventually(t, key+" can be written again", func() bool { return client.Set(t.Context(), key, "again", 0).Err() == nil })
	}
}

func TestHangNodeAnswersNothing(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("needs a cluster")
	}
	server := redistest.Fresh(t)
	addrs := strings.Split(strings.TrimPrefix(server.URL, "redis://"), ",")
	hung := connect(t, addrs[1])
	server.HangNode(1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := hung.Ping(ctx).Err(); err == nil {
		t.Error("node 1 answers")
	}
	if err := ping(t, addrs[0]); err != nil {
		t.Errorf("node 0: %v", err)
	}
	server.ResumeNode(1)
	within(t, "node 1 answers again", func() bool { return ping(t, addrs[1]) == nil })
}

// A server does not outlive a test process that gets no chance to clean up.
func TestServersEndWithAKilledTest(t *testing.T) {
	if redistest.Kind(t) == redistest.Miniredis {
		t.Skip("miniredis is in the process")
	}
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildHolds$")
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+dir)
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 256)
	n, err := stdout.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	addrs := strings.Split(strings.TrimPrefix(strings.TrimSpace(string(buffer[:n])), "redis://"), ",")
	for _, addr := range addrs {
		if err := ping(t, addr); err != nil {
			t.Fatalf("the child's server: %v", err)
		}
	}

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	within(t, "the child's servers and files are gone", func() bool {
		for _, addr := range addrs {
			if ping(t, addr) == nil {
				return false
			}
		}
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	})
}

// Without a redis-server the tests that ask for one fail and say what to do.
func TestMissingServerFailsTheTest(t *testing.T) {
	for _, kind := range []string{redistest.Real, redistest.Cluster} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildHolds$")
		child.Env = append(os.Environ(), childVariable+"=1", redistest.Variable+"="+kind, "PATH="+t.TempDir())
		out, err := child.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(out), "apt-get install redis-server") {
			t.Errorf("%s without redis-server: %v\n%s", kind, err, out)
		}
	}
}

const childVariable = "TOLLGATE_TEST_CHILD"

// TestChildHolds is the process that TestServersEndWithAKilledTest kills.
func TestChildHolds(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("runs as a child only")
	}
	if _, err := os.Stdout.WriteString(redistest.URL(t) + "\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // its end comes from outside
}

// connect gives a client without retries, so that each command is sent once.
func connect(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	addrs := strings.Split(strings.TrimPrefix(url, "redis://"), ",")
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: addrs, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		DialTimeout: redistest.Patience, ReadTimeout: redistest.Patience, WriteTimeout: redistest.Patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A crash can cut the file in the middle of a transaction. Nothing of that may
// come back, with any later start either.
func TestRestartDropsHalfOfATransaction(t *testing.T) {
	if redistest.Kind(t) == redistest.Miniredis {
		t.Skip("miniredis has no file")
	}
	server := redistest.Single(t)
	client := connect(t, server.URL)
	write := func(item string) {
		t.Helper()
		const script = "redis.call('INCR', KEYS[1]) redis.call('RPUSH', KEYS[2], ARGV[1])"
		if err := client.Eval(t.Context(), script, []string{"{p00}n", "{p00}list"}, item).Err(); err != nil && err != redis.Nil {
			t.Fatal(err)
		}
	}
	write("first")
	write(strings.Repeat("x", 1000))
	server.Kill()
	server.CutFile(500)
	server.Restart()
	write("last")
	server.Kill()
	server.Restart()
	if n, list := client.Get(t.Context(), "{p00}n").Val(), client.LRange(t.Context(), "{p00}list", 0, -1).Val(); n != "2" || !slices.Equal(list, []string{"first", "last"}) {
		t.Errorf("%s, %q", n, list)
	}
}

func ping(t *testing.T, addr string) error {
	t.Helper()
	conn, err := net.Dial("tcp", addr) // go-redis would log a failure
	if err != nil {
		return err
	}
	_ = conn.Close()
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ReadTimeout: redistest.Patience,
	})
	defer client.Close()
	return client.Ping(t.Context()).Err()
}

func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", redistest.Patience, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// The block of each port that is handed out stays taken, by its first one, so
// that no other process looks for its ports there.
func TestPortsBelongToTheProcess(t *testing.T) {
	given := make(map[string]bool)
	for range 250 { // more than a block has
		addr, err := redistest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		if given[addr] {
			t.Errorf("%s is given twice", addr)
		}
		given[addr] = true
		_, port, _ := net.SplitHostPort(addr)
		if l, err := net.Listen("tcp", "127.0.0.1:"+port[:len(port)-2]+"00"); err == nil {
			l.Close()
			t.Fatalf("the block of %s is free for others", addr)
		}
	}
}
