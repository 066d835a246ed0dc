package redistest

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Gates stand before the nodes of a cluster: whoever connects to one, be it a client or
// another node, passes its gates, of which one is for the bus. Nodes are told apart by
// their addresses, 127.0.1.1 and so on, and clients are 127.0.0.1. What does not pass
// arrives when it may again, as a packet does that is sent again.
type Gates struct {
	mu     sync.Mutex
	opened *sync.Cond
	shut   map[[2]int]bool // the lower number first; clients are -1
	closed bool
	links  map[net.Conn]struct{}

	running sync.WaitGroup
}

// PartitionedCluster is [ReplicatedCluster] with gates. Its addresses are those of the
// gates.
func PartitionedCluster(tb testing.TB) (*Server, *Gates) {
	tb.Helper()
	g := &Gates{shut: map[[2]int]bool{}, links: map[net.Conn]struct{}{}}
	g.opened = sync.NewCond(&g.mu)
	tb.Cleanup(g.close)
	var nodes []*node
	for i := range 6 {
		n, err := g.launch(tb, i)
		if n != nil {
			nodes = append(nodes, n)
		}
		if err != nil {
			_, err = launched(nodes, 3, err)
			tb.Fatal(err)
		}
	}
	server, err := launched(nodes, 3, join(nodes, 3))
	if err != nil {
		tb.Fatal(err)
	}
	server.tb = tb
	tb.Cleanup(server.Stop)
	return server, g
}

// launch starts a node behind gates of its own.
func (g *Gates) launch(tb testing.TB, i int) (*node, error) {
	var own [4]string // the node, its bus, and their gates
	for n := range own {
		addr, err := FreeAddr()
		if err != nil {
			return nil, err
		}
		own[n] = addr
	}
	n := &node{dir: tb.TempDir(), fsync: survivesKill, addr: own[0], gate: own[2], args: append([]string{
		"--cluster-port", port(own[1]), "--bind-source-addr", fmt.Sprintf("127.0.1.%d", i+1),
		"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", port(own[2]), "--cluster-announce-bus-port", port(own[3]),
	}, replicated...)}
	n.busGate = port(own[3])
	for at, target := range map[string]string{own[2]: own[0], own[3]: own[1]} {
		if err := g.serve(at, target, i); err != nil {
			return nil, err
		}
	}
	return n, n.start()
}

// Shut lets nothing pass between two nodes any more, in neither direction, and Open all of
// it. -1 are all clients.
func (g *Gates) Shut(a, b int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut[[2]int{min(a, b), max(a, b)}] = true
}

// Open opens all gates.
func (g *Gates) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.shut)
	g.opened.Broadcast()
}

func (g *Gates) serve(at, target string, node int) error {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	g.running.Go(func() {
		<-g.done()
		_ = listener.Close()
	})
	g.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			g.running.Go(func() { g.link(client, target, [2]int{min(who(client), node), max(who(client), node)}) })
		}
	})
	return nil
}

// who connects.
func who(client net.Conn) int {
	host, _, _ := net.SplitHostPort(client.RemoteAddr().String())
	if number, ok := strings.CutPrefix(host, "127.0.1."); ok {
		n, _ := strconv.Atoi(number)
		return n - 1
	}
	return -1
}

func (g *Gates) link(client net.Conn, target string, between [2]int) {
	defer client.Close()
	if !g.pass(between) {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return // it is away
	}
	g.mu.Lock()
	g.links[client], g.links[server] = struct{}{}, struct{}{}
	g.mu.Unlock()
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		copying.Go(func() {
			defer way[0].Close()
			defer way[1].Close()
			b := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(b)
				if n > 0 && g.pass(between) {
					_, failed := way[1].Write(b[:n])
					if err == nil {
						err = failed
					}
				}
				if err != nil {
					if err == io.EOF {
						g.pass(between) // nor does the end
					}
					return
				}
			}
		})
	}
	copying.Wait()
	g.mu.Lock()
	delete(g.links, client)
	delete(g.links, server)
	g.mu.Unlock()
}

// pass waits until the gates are open, or all is over.
func (g *Gates) pass(between [2]int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut[between] && !g.closed {
		g.opened.Wait()
	}
	return !g.closed
}

func (g *Gates) done() <-chan struct{} {
	over := make(chan struct{})
	g.running.Go(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for !g.closed {
			g.opened.Wait()
		}
		close(over)
	})
	return over
}

func (g *Gates) close() {
	g.mu.Lock()
	g.closed = true
	for conn := range g.links {
		_ = conn.Close()
	}
	g.opened.Broadcast()
	g.mu.Unlock()
	g.running.Wait()
}
