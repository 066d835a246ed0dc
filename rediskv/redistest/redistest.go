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
	"sync"
	"testing"
)

// Variable names the environment variable that chooses the kind of server.
const Variable = "TOLLGATE_TEST_REDIS"

// The kinds of server that [Variable] may name.
const (
	Miniredis = "miniredis"
	Real      = "server"
	Cluster   = "cluster"
)

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

// URL is the address of a Redis of the chosen kind, as rediskv.Options takes
// it: redis://host:port, for a cluster redis://host:port,host:port,host:port.
//
// On miniredis every call is an empty server that lives as long as the test.
// The real ones are started by the first call and shared by all tests of the
// process, so a test must write below organizations of its own; one that needs
// an empty keyspace, other settings or a server to kill takes [Fresh].
func URL(tb testing.TB) string {
	tb.Helper()
	var server *Server
	var err error
	switch Kind(tb) {
	case Miniredis:
		return Fresh(tb).URL
	case Real:
		server, err = sharedServer()
	case Cluster:
		server, err = sharedCluster()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return server.URL
}

// Nothing stops the shared servers: their keepers end them with this process.
var (
	sharedServer  = sync.OnceValues(func() (*Server, error) { return launch(Real, fast) })
	sharedCluster = sync.OnceValues(func() (*Server, error) { return launch(Cluster, fast) })
)

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
