package redistest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Server is a running Redis: a miniredis, one redis-server, or a cluster of
// three. Its methods fail the test that started it when they do not succeed.
type Server struct {
	// URL is the address for rediskv.Options; see the function [URL].
	URL string
	// Addr is host:port of the only, or the first, node.
	Addr string
	// Mini is the embedded server, nil when the server is a real one. Its
	// keys expire only when a test calls Mini.FastForward.
	Mini *miniredis.Miniredis

	nodes   []*node
	masters int // of them, in a cluster
	tb      testing.TB
}

// The append-only file reaches the kernel before a reply is sent, so that
// SIGKILL loses nothing that was acknowledged, under appendfsync always. Under
// everysec that holds but for the moments in which Redis waits for an fsync
// in the background: it then keeps up to two seconds of what it acknowledged in
// its own memory (flushAppendOnlyFile in Redis' aof.c).
const (
	survivesKill = "always"
	fast         = "everysec"
)

func launch(kind, fsync string) (*Server, error) {
	if kind == Miniredis {
		return launchMini()
	}
	nodes := make([]*node, 0, 3)
	var err error
	switch kind {
	case Real:
		nodes, err = launchNodes(1, fsync)
	case Cluster:
		// A node that is starved of time for less than this is not given up by the
		// others, which would then serve nobody.
		if nodes, err = launchNodes(3, fsync, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000"); err == nil {
			err = join(nodes, 3)
		}
	}
	return launched(nodes, 3, err)
}

var replicated = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "3000", "--repl-ping-replica-period", "1"}

// launchReplicated is a cluster in which each master has a replica. A master that is away
// for longer than a few seconds is given up.
func launchReplicated() (*Server, error) {
	nodes, err := launchNodes(6, survivesKill, replicated...)
	if err == nil {
		err = join(nodes, 3)
	}
	return launched(nodes, 3, err)
}

func launched(nodes []*node, masters int, err error) (*Server, error) {
	if err != nil {
		for _, n := range nodes {
			n.remove()
		}
		return nil, err
	}
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.public()
	}
	return &Server{URL: "redis://" + strings.Join(addrs, ","), Addr: addrs[0], nodes: nodes, masters: masters}, nil
}

func launchMini() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	for range attempts {
		addr, err := FreeAddr()
		if err != nil {
			return nil, err
		}
		if err := mini.StartAddr(addr); err == nil {
			return &Server{URL: "redis://" + addr, Addr: addr, Mini: mini}, nil
		}
	}
	return nil, errors.New("start miniredis: no free port on loopback")
}

// Kill ends every node with SIGKILL: nothing is flushed that Redis had not
// already given to the kernel. A miniredis drops its connections and keeps its
// data, as a server does that writes its append-only file at every command.
func (s *Server) Kill() {
	if s.Mini != nil {
		s.Mini.Close()
		return
	}
	for _, n := range s.nodes {
		s.check("kill redis-server", n.kill())
	}
}

// CutFile takes so many bytes off the end of what the first node has written to
// its append-only file, as a crash in the middle of a write does. The server
// must have been killed.
func (s *Server) CutFile(bytes int64) { s.check("cut the append-only file", s.nodes[0].cut(bytes)) }

// Files is the folder of the first node's append-only file. What is in it may be exchanged
// while the server is killed.
func (s *Server) Files() string { return filepath.Join(s.nodes[0].dir, "appendonlydir") }

// Restart starts what Kill ended, on the same addresses and files, and returns
// when it answers. The script cache is empty afterwards, on miniredis too.
func (s *Server) Restart() {
	if s.Mini != nil {
		s.check("restart miniredis", s.Mini.Restart())
		s.check("empty miniredis' script cache", s.do(s.Addr, "SCRIPT", "FLUSH"))
		return
	}
	for _, n := range s.nodes {
		s.check("restart redis-server", n.start())
	}
	if len(s.nodes) > 1 {
		s.check("restart the cluster", awaitCluster(s.nodes, s.masters))
	}
}

// KillNode is Kill for node i of a cluster alone.
func (s *Server) KillNode(i int) { s.check("kill redis-server", s.nodes[i].kill()) }

// RestartNode is Restart for node i of a cluster alone.
func (s *Server) RestartNode(i int) {
	s.check("restart redis-server", s.nodes[i].start())
	s.check("restart the cluster", awaitCluster(s.nodes, s.masters))
}

// HangNode stops the process of node i of a cluster without ending it
// (SIGSTOP): it takes connections and answers nothing. The others notice
// after the cluster's node time-out. ResumeNode lets it go on; so does the end
// of the test.
func (s *Server) HangNode(i int) {
	s.check("stop redis-server", s.nodes[i].signal(syscall.SIGSTOP))
	s.tb.Cleanup(func() { _ = s.nodes[i].signal(syscall.SIGCONT) })
}

// ResumeNode ends HangNode.
func (s *Server) ResumeNode(i int) {
	s.check("continue redis-server", s.nodes[i].signal(syscall.SIGCONT))
}

// Follow makes an empty server a replica of another one. It is behind until it has
// caught up.
func (s *Server) Follow(primary *Server) {
	s.tb.Helper()
	host, port, _ := strings.Cut(primary.Addr, ":")
	s.check("follow", s.Command("REPLICAOF", host, port))
}

// Unfollow cuts a replica off: it stays one and keeps what it has.
func (s *Server) Unfollow() {
	s.tb.Helper()
	s.check("follow nobody", s.Command("REPLICAOF", "127.0.0.1", "1")) // where nothing listens
}

// Stop ends the server and removes its files. It is called by the test's
// clean-up; calling it earlier, or twice, does no harm.
func (s *Server) Stop() {
	if s.Mini != nil {
		s.Mini.Close()
	}
	for _, n := range s.nodes {
		n.remove()
	}
}

// Command sends one command beside the clients under test, in a cluster to the
// node of its key. An answer that is an error is returned.
func (s *Server) Command(command ...any) error {
	hosts := strings.Split(strings.TrimPrefix(s.URL, "redis://"), ",")
	for i, h := range hosts {
		hosts[i], _, _ = strings.Cut(h, "/")
	}
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: hosts, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	})
	defer c.Close()
	return c.Do(context.Background(), command...).Err()
}

// Empty removes all that is stored; scripts and settings stay.
func (s *Server) Empty() error {
	if s.Mini != nil {
		s.Mini.FlushAll()
		return nil
	}
	for _, n := range s.nodes {
		if err := s.do(n.addr, "FLUSHALL"); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) do(addr string, command ...any) error {
	client := redis.NewClient(nodeOptions(addr))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return client.Do(ctx, command...).Err()
}

func (s *Server) check(operation string, err error) {
	if err != nil {
		s.tb.Helper()
		s.tb.Fatal(fmt.Errorf("%s: %w", operation, err))
	}
}
