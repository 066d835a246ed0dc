package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// kill -9 of the server at any moment: clients that ask again with their keys
// find everything that was acknowledged, once.
func TestServerKilled(t *testing.T) {
	s := newSite(t, redistest.URL(t))
	server := s.serve()
	l := startLoad(s, server.serving(), 8, false)
	for range 6 {
		l.more(5 + rand.IntN(40))
		// Any moment of a request will do; nothing is proven by the wait.
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		server.kill()
		server = s.serve()
		l.point(server.serving())
	}
	l.more(30)
	l.stop()
	l.check()
}

// kill -9 of redis-server (all nodes of a cluster at once), which has its
// append-only file. The service stays up and comes back by itself.
func TestRedisKilled(t *testing.T) {
	if redistest.Kind(t) == redistest.Miniredis {
		t.Skip("needs a process to kill")
	}
	redis := redistest.Fresh(t)
	s := newSite(t, redis.URL)
	s.hasty()
	l := startLoad(s, s.serve().serving(), 8, false)
	for range 3 {
		l.more(5 + rand.IntN(60))
		redis.Kill()
		redis.Restart()
	}
	l.more(30)
	l.stop()
	l.check()
}

// One master of a cluster after the other.
func TestClusterMasterKilled(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("needs a cluster")
	}
	redis := redistest.Fresh(t)
	s := newSite(t, redis.URL)
	s.hasty()
	l := startLoad(s, s.serve().serving(), 4, false)
	for node := range 3 {
		l.more(5 + rand.IntN(60))
		redis.KillNode(node)
		redis.RestartNode(node)
	}
	l.more(30)
	l.stop()
	l.check()
}
