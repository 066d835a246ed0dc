// Package redistest gives tests the Redis that the environment variable
// TOLLGATE_TEST_REDIS names, so that one suite runs on all of them:
//
//	miniredis  embedded in the test process (the default; needs nothing)
//	server     a real redis-server with its append-only file on
//	cluster    a Redis Cluster of three masters
//
// The last two need redis-server 7.0 or newer on the PATH. A test fails when
// it is missing; it is never skipped, or a machine without Redis would report
// a green run that proved nothing.
//
// Servers listen on loopback only, keep their files in a directory of their
// own, and end with the test process, also when that is killed.
package redistest

import (
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Variable names the environment variable that chooses the kind of server.
const Variable = "TOLLGATE_TEST_REDIS"

// Cores names the environment variable that lists processors, as taskset takes
// them, for what is no part of the service: Redis and whoever plays clients. A
// measurement leaves the others to the service, as if it had its own machine.
const Cores = "TOLLGATE_TEST_CORES"

// Elsewhere is a command that runs on those processors, the same one when none
// are listed.
func Elsewhere(command ...string) []string {
	if cores := os.Getenv(Cores); cores != "" {
		return append([]string{"taskset", "-c", cores}, command...)
	}
	return command
}

// The kinds of server that [Variable] may name.
const (
	Miniredis = "miniredis"
	Real      = "server"
	Cluster   = "cluster"
)

// Patience is how long a call of a test to its Store may take where nothing is
// wrong with Redis: a machine with much to do stalls for seconds.
const Patience = 30 * time.Second

// Kind is what TOLLGATE_TEST_REDIS names; any other word fails the test.
func Kind(tb testing.TB) string {
	tb.Helper()
	switch kind := os.Getenv(Variable); kind {
	case "", Miniredis:
		return Miniredis
	case Real, Cluster:
		return kind
	default:
		tb.Fatalf("%s=%q: want %s, %s or %s", Variable, kind, Miniredis, Real, Cluster)
		return ""
	}
}

// URL is the address of an empty Redis of the chosen kind, as rediskv.Options
// takes it: redis://host:port, for a cluster redis://host:port,host:port,host:port.
// Until the test ends nobody else uses it: what one test leaves in a queue is
// never handed to another's worker.
//
// A real one is started when none is idle, and emptied when the test has ended.
// A test that needs a server to kill or other settings takes [Fresh].
func URL(tb testing.TB) string {
	tb.Helper()
	kind := Kind(tb)
	if kind == Miniredis {
		return Fresh(tb).URL
	}
	server, err := idle.take(kind)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Empty(); err != nil {
			server.Stop()
			tb.Errorf("empty %s: %v", server.URL, err)
			return
		}
		idle.give(server)
	})
	return server.URL
}

// idle holds the real servers, all of one kind, that no test uses. Nothing
// stops them: their keepers end them with this process.
var idle pool

type pool struct {
	mu      sync.Mutex
	servers []*Server
}

func (p *pool) take(kind string) (*Server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.servers) - 1
	if last < 0 {
		return launch(kind, fast)
	}
	server := p.servers[last]
	p.servers = p.servers[:last]
	return server, nil
}

func (p *pool) give(server *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = append(p.servers, server)
}

// Fresh is an empty server, or cluster, of the chosen kind that belongs to
// this test alone and ends with it. What it has acknowledged survives Kill.
func Fresh(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, Kind(tb))
}

// Single is Fresh for tests that look at the wire between client and server
// (see [Proxy]) or need exactly one node: where the suite runs on a cluster it
// is one real redis-server, because a cluster's client learns the nodes' own
// addresses and would go round a proxy.
func Single(tb testing.TB) *Server {
	tb.Helper()
	kind := Kind(tb)
	if kind == Cluster {
		kind = Real
	}
	return start(tb, kind)
}

// Replicated are a server and an empty one that can be its replica, as the embedded one
// cannot: see [Started].
func Replicated(tb testing.TB) (primary, replica *Server) {
	tb.Helper()
	return Started(tb, Real), Started(tb, Real)
}

// Started is Fresh for tests that need a real server, or a cluster, whichever kind the
// others run on. Where there is none on the machine, they are left to those where there
// is one.
func Started(tb testing.TB, kind string) *Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil && Kind(tb) == Miniredis {
		tb.Skip("this needs a real redis-server, and there is none here")
	}
	return start(tb, kind)
}

// ReplicatedCluster is a cluster of three masters, each with a replica that takes its place
// when it is away for some seconds.
func ReplicatedCluster(tb testing.TB) *Server {
	tb.Helper()
	server, err := launchReplicated()
	if err != nil {
		tb.Fatal(err)
	}
	server.tb = tb
	tb.Cleanup(server.Stop)
	return server
}

func start(tb testing.TB, kind string) *Server {
	tb.Helper()
	server, err := launch(kind, survivesKill)
	if err != nil {
		tb.Fatal(err)
	}
	server.tb = tb
	tb.Cleanup(server.Stop)
	return server
}
