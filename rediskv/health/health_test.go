package health_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/health"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

func open(t *testing.T, url string, o rediskv.Options) (*store.Store, *testkit.Log) {
	t.Helper()
	log := new(testkit.Log)
	o.URL, o.Clock, o.Log = url, time.Now, slog.New(slog.NewJSONHandler(log, nil))
	return testkit.Open(t, o), log
}

// A heartbeat is a write: whatever keeps Redis from taking one shows.
func TestHeartbeatIsAWrite(t *testing.T) {
	primary, other := redistest.Replicated(t)
	for _, c := range []struct {
		want  health.Write
		begin func()
		end   [][]any
	}{
		{want: health.OutOfMemory, begin: func() { set(t, primary, "maxmemory", "1") }, end: [][]any{{"CONFIG", "SET", "maxmemory", "0"}}},
		{want: health.TooFewReplicas, begin: func() { set(t, primary, "min-replicas-to-write", "1") }, end: [][]any{{"CONFIG", "SET", "min-replicas-to-write", "0"}}},
		{want: health.ReadOnly, begin: func() { primary.Follow(other) }, end: [][]any{{"REPLICAOF", "NO", "ONE"}}},
		{want: health.RefusesWrites, begin: func() {
			set(t, primary, "save", "3600 100000")
			// Where its snapshots go. A child that writes the append-only file
			// may still be at work there, and keeps a snapshot from beginning.
			testkit.Eventually(t, "its directory is gone", func() bool { return os.RemoveAll(directory(t, primary)) == nil })
			testkit.Eventually(t, "a snapshot is begun", func() bool { return primary.Command("BGSAVE") == nil })
		}, end: [][]any{{"CONFIG", "SET", "save", ""}}},
	} {
		s, log := open(t, primary.URL, rediskv.Options{})
		if got := s.Beat(t.Context()); got != health.Written {
			t.Fatalf("before %s: %s", c.want, got)
		}
		c.begin()
		testkit.Eventually(t, string(c.want), func() bool { return s.Beat(t.Context()) == c.want })
		if got, err := s.Writes(); got != c.want || err == nil {
			t.Errorf("%s: %s %v", c.want, got, err)
		}
		if !log.Has(`"heartbeat":"` + string(c.want)) {
			t.Errorf("%s is not in the log: %s", c.want, log)
		}
		for _, command := range c.end {
			if err := primary.Command(command...); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Eventually(t, "writes after "+string(c.want), func() bool { return s.Beat(t.Context()) == health.Written })
		if !log.Has("takes writes again") {
			t.Errorf("the end of %s is not in the log", c.want)
		}
	}
}

// directory is where a server keeps its files.
func directory(t *testing.T, s *redistest.Server) string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer c.Close()
	said, err := c.ConfigGet(t.Context(), "dir").Result()
	if err != nil || said["dir"] == "" {
		t.Fatal(said, err)
	}
	return said["dir"]
}

func set(t *testing.T, s *redistest.Server, name, value string) {
	t.Helper()
	if err := s.Command("CONFIG", "SET", name, value); err != nil {
		t.Fatal(err)
	}
}

// Redis is asked by every kind of server, and one that goes away and comes back shows.
func TestHeartbeatEndsWithRedis(t *testing.T) {
	server := redistest.Fresh(t)
	s, _ := open(t, server.URL, rediskv.Options{Timeout: 2 * time.Second})
	if got, _ := s.Writes(); got != health.Unreachable {
		t.Errorf("before any heartbeat: %s", got)
	}
	testkit.Eventually(t, "the first", func() bool { return s.Beat(t.Context()) == health.Written })
	server.Kill()
	testkit.Eventually(t, "it is away", func() bool { return s.Beat(t.Context()) == health.Unreachable })
	server.Restart()
	testkit.Eventually(t, "it is back", func() bool { return s.Beat(t.Context()) == health.Written })
}

// Of a cluster every master is asked: one that is away is enough.
func TestHeartbeatOfEveryMaster(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("only a cluster has several masters")
	}
	server := redistest.Fresh(t)
	s, _ := open(t, server.URL, rediskv.Options{Timeout: 2 * time.Second})
	for node := range 3 {
		testkit.Eventually(t, "all are there", func() bool { return s.Beat(t.Context()) == health.Written })
		server.HangNode(node)
		if got := s.Beat(t.Context()); got != health.Unreachable {
			t.Errorf("node %d hangs: %s", node, got)
		}
		server.ResumeNode(node)
	}
}

// A heartbeat that is old says nothing any more.
func TestHeartbeatGetsOld(t *testing.T) {
	clock := testkit.NewClock()
	s := testkit.Open(t, rediskv.Options{URL: redistest.URL(t), Clock: clock.Now})
	testkit.Eventually(t, "a heartbeat", func() bool { return s.Beat(t.Context()) == health.Written })
	clock.Advance(3 * time.Second)
	if got, _ := s.Writes(); got != health.Written {
		t.Errorf("after 3 s: %s", got)
	}
	clock.Advance(time.Millisecond)
	if got, err := s.Writes(); got != health.Unreachable || err == nil {
		t.Errorf("after more: %s %v", got, err)
	}
}

// A machine whose clock is wrong knows it, whichever way.
func TestClockIsCompared(t *testing.T) {
	url := redistest.URL(t)
	for _, c := range []struct {
		ahead               time.Duration
		tolerated, withinIt bool
	}{
		{0, true, true},
		{2 * time.Second, true, true},
		{20 * time.Second, false, true},
		{-20 * time.Second, false, true},
		{200 * time.Hour, false, false},
		{-2 * time.Minute, false, false},
	} {
		s, log := open(t, url, rediskv.Options{Wall: func() time.Time { return time.Now().Add(c.ahead) }})
		if err := s.CheckClock(time.Hour); !errors.Is(err, health.ErrClockUnknown) {
			t.Errorf("nobody has compared: %v", err)
		}
		// On a machine with much to do an answer takes so long that it says little.
		testkit.Eventually(t, "the clock is known", func() bool {
			s.Beat(t.Context())
			err := s.CheckClock(health.ClockTolerance)
			return (err == nil) == c.tolerated && (s.CheckClock(health.ClockLimit) == nil) == c.withinIt
		})
		off, is := errors.AsType[*health.ClockError](s.CheckClock(health.ClockTolerance))
		if is == c.tolerated || is && (off.Ahead-c.ahead).Abs() > 2*time.Second {
			t.Errorf("%s ahead: %v", c.ahead, off)
		}
		if log.Has(`"check":"clock"`) == c.tolerated {
			t.Errorf("%s ahead: the log says %s", c.ahead, log)
		}
	}
	s, _ := open(t, url, rediskv.Options{})
	if err := s.CheckClock(0); err != nil {
		t.Errorf("there is no clock to compare: %v", err)
	}
}

// What is set wrongly while a process runs is said after a reconnect.
func TestLookAfterReconnect(t *testing.T) {
	primary, _ := redistest.Replicated(t)
	s, log := open(t, primary.URL, rediskv.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() { s.FollowHealth(ctx); close(followed) }()
	defer func() { cancel(); <-followed }()
	testkit.Eventually(t, "it has looked", func() bool { return s.Worst(health.CheckPolicy) == health.Fine })
	set(t, primary, "maxmemory-policy", "allkeys-lru")
	testkit.Within(t, "it has looked again", 30*time.Second, func() bool { // before the minute is over
		if err := primary.Command("CLIENT", "KILL", "TYPE", "normal"); err != nil {
			t.Fatal(err)
		}
		return s.Worst(health.CheckPolicy) == health.Failure
	})
	if !log.Has("allkeys-lru") || !log.Has(`"level":"ERROR"`) {
		t.Errorf("%s", log)
	}
}

func TestJudge(t *testing.T) {
	good := peer.Facts{
		"redis_version": "7.0.15", "role": "master", "aof_enabled": "1", "aof_last_write_status": "ok", "appendfsync": "always", "aof-load-truncated": "no",
		"maxmemory_policy": "noeviction", "maxmemory": "1000", "used_memory": "100", "connected_slaves": "0",
	}
	for _, c := range []struct {
		name, value string
		wait        int
		check       string
		want        health.Level
		text        string
	}{
		{"redis_version", "6.2.1", 0, health.CheckVersion, health.Failure, "7.0"},
		{"redis_version", "", 0, health.CheckVersion, health.Unknown, ""},
		{"role", "slave", 0, health.CheckRole, health.Failure, "replica"},
		{"aof_enabled", "0", 0, health.CheckPersistence, health.Warning, "append-only"},
		{"aof_enabled", "", 0, health.CheckPersistence, health.Unknown, "appendonly yes"},
		{"aof_last_write_status", "err", 0, health.CheckPersistence, health.Failure, "disk"},
		{"appendfsync", "everysec", 0, health.CheckPersistence, health.Warning, "two seconds"},
		{"appendfsync", "", 0, health.CheckPersistence, health.Unknown, "appendfsync always"},
		{"aof-load-truncated", "yes", 0, health.CheckPersistence, health.Warning, "redis-check-aof"},
		{"maxmemory_policy", "volatile-ttl", 0, health.CheckPolicy, health.Failure, "volatile-ttl"},
		{"maxmemory_policy", "", 0, health.CheckPolicy, health.Unknown, "noeviction"},
		{"maxmemory", "0", 0, health.CheckMemory, health.Warning, "no maxmemory"},
		{"maxmemory", "", 0, health.CheckMemory, health.Unknown, ""},
		{"used_memory", "850", 0, health.CheckMemory, health.Warning, "85 %"},
		{"used_memory", "1000", 0, health.CheckMemory, health.Failure, "refuses writes"},
		{"connected_slaves", "2", 0, health.CheckReplicas, health.Warning, "TOLLGATE_REDIS_WAIT_REPLICAS=1"},
		{"connected_slaves", "2", 1, health.CheckReplicas, health.Fine, "waits for 1"},
		{"connected_slaves", "0", 1, health.CheckReplicas, health.Failure, "all are refused"},
	} {
		facts := peer.Facts{}
		for name, value := range good {
			facts[name] = value
		}
		facts[c.name] = c.value
		for _, f := range health.Judge([]health.Server{{Address: "a:1", Facts: facts}}, c.wait) {
			switch {
			case f.Check == c.check && (f.Level != c.want || !strings.Contains(f.Message+" "+f.Advice, c.text)):
				t.Errorf("%s %q: %+v", c.name, c.value, f)
			case f.Check != c.check && f.Level != health.Fine && !(c.name == "role" && c.value == ""):
				t.Errorf("%s %q: %+v", c.name, c.value, f)
			case f.Check != c.check && f.Server != "":
				t.Errorf("there is one server, and %+v names it", f)
			}
		}
	}
	two := health.Judge([]health.Server{{Address: "b:1", Facts: good}, {Address: "a:1", Facts: good}}, 0)
	if len(two) != 12 || two[0].Server != "a:1" || two[6].Server != "b:1" {
		t.Errorf("%+v", two)
	}
}
