package redistest

import (
	"bufio"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Wire is a proxy between a client and one Redis server. It counts what the
// client sends, and fails on demand as networks do.
type Wire struct {
	// URL and Addr are the proxy's own, for the client.
	URL, Addr string

	tb     testing.TB
	target string

	mu       sync.Mutex
	listener net.Listener
	links    map[*link]struct{}
	sent     []Command
	swallow  map[string][]*loss // by command, see SwallowReply; one per reply to lose
	flowing  chan struct{}      // closed while bytes may pass
	away     time.Duration      // see Delay
	running  sync.WaitGroup
}

// Proxy starts a proxy on loopback before the server at addr (see
// [Server].Addr; a redis:// URL of one host will do too). It ends with the test.
func Proxy(tb testing.TB, addr string) *Wire {
	tb.Helper()
	addr, _, _ = strings.Cut(strings.TrimPrefix(addr, "redis://"), "/")
	w := &Wire{
		tb:      tb,
		target:  addr,
		links:   make(map[*link]struct{}),
		swallow: make(map[string][]*loss),
		flowing: make(chan struct{}),
	}
	close(w.flowing)
	for range attempts {
		own, err := FreeAddr()
		if err != nil {
			tb.Fatal(err)
		}
		w.Addr, w.URL = own, "redis://"+own
		if err = w.listen(); err == nil {
			tb.Cleanup(w.close)
			return w
		}
	}
	tb.Fatal("start a proxy: no free port on loopback")
	return nil
}

// Sent are the commands that the client sent since the start or the last
// Reset, in the order in which they arrived, of all connections.
func (w *Wire) Sent() []Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

// Counts is how often each command was sent; the names are in upper case.
func (w *Wire) Counts() map[string]int {
	counts := make(map[string]int)
	for _, c := range w.Sent() {
		counts[c.Name]++
	}
	return counts
}

// Count is how often one command was sent.
func (w *Wire) Count(name string) int { return w.Counts()[strings.ToUpper(name)] }

// Reset forgets what was sent.
func (w *Wire) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = nil
}

// SwallowReply loses the reply to the next such command: the server carries it
// out, the client sees its connection end instead of the answer. A command is
// named alone or with its first argument: "EVALSHA 3f78…". The channel is
// closed when that has happened. Two calls lose two replies.
func (w *Wire) SwallowReply(command string) <-chan struct{} {
	return w.SwallowReplyAfter(command, func() {})
}

// loss is a reply to lose.
type loss struct {
	between func()
	done    chan struct{}
}

// SwallowReplyAfter is SwallowReply, and between runs after the server has
// carried the command out and before the client notices that its connection
// ended: whatever it does comes before the command is sent again. It must not
// use this proxy.
func (w *Wire) SwallowReplyAfter(command string, between func()) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, arg, only := strings.Cut(command, " ")
	name = strings.ToUpper(name)
	if only {
		name += " " + arg
	}
	lost := &loss{between, make(chan struct{})}
	w.swallow[name] = append(w.swallow[name], lost)
	return lost.done
}

// Refuse cuts all connections and refuses new ones, as a host does on which
// no server runs, until Accept.
func (w *Wire) Refuse() {
	w.mu.Lock()
	listener := w.listener
	w.listener = nil
	w.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	w.Cut()
}

// Accept ends Refuse, on the same address.
func (w *Wire) Accept() {
	w.tb.Helper()
	if err := w.listen(); err != nil {
		w.tb.Fatal(err)
	}
}

// Cut ends all connections at once; new ones are accepted.
func (w *Wire) Cut() {
	w.mu.Lock()
	links := slices.Collect(maps.Keys(w.links))
	w.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// Pause lets nothing pass in either direction until Resume, as a network does
// that loses every packet: connections are accepted, and nothing answers. What
// was sent meanwhile arrives after Resume, also from clients that gave up, as
// a packet sent again does.
func (w *Wire) Pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.flowing:
		w.flowing = make(chan struct{})
	default: // paused already
	}
}

// Resume ends Pause.
func (w *Wire) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.flowing:
	default:
		close(w.flowing)
	}
}

// Delay makes the server as far away as a round trip of that long: what a
// client sends at once arrives that much later, once, however many commands
// it is.
func (w *Wire) Delay(roundTrip time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = roundTrip
}

func (w *Wire) listen() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", w.Addr)
	if err != nil {
		return err
	}
	w.listener = listener
	w.running.Go(func() { w.serve(listener) })
	return nil
}

func (w *Wire) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil {
			// The server is away: the client sees its connection end.
			_ = client.Close()
			continue
		}
		l := &link{wire: w, client: client, server: server}
		w.mu.Lock()
		refused := w.listener != listener
		if !refused {
			w.links[l] = struct{}{}
		}
		w.mu.Unlock()
		if refused {
			l.close()
			continue
		}
		w.running.Go(l.commands)
		w.running.Go(l.replies)
	}
}

func (w *Wire) close() {
	w.Refuse()
	w.Resume()
	w.running.Wait()
}

// record notes a command and returns how its reply is lost, nil if it is not.
func (w *Wire) record(c Command) *loss {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, c)
	for _, name := range []string{c.Name, c.Name + " " + c.Arg} {
		if waiting := w.swallow[name]; len(waiting) > 0 {
			w.swallow[name] = waiting[1:]
			return waiting[0]
		}
	}
	return nil
}

// travel waits for as long as what was sent is on its way.
func (w *Wire) travel() {
	w.mu.Lock()
	away := w.away
	w.mu.Unlock()
	time.Sleep(away)
}

// pass waits while the wire is paused.
func (w *Wire) pass() {
	w.mu.Lock()
	flowing := w.flowing
	w.mu.Unlock()
	<-flowing
}

// link is one client's connection and the one to the server that belongs to it.
type link struct {
	wire           *Wire
	client, server net.Conn

	mu sync.Mutex
	// pending has one element per command whose reply has not come: nil, or
	// how that reply is lost.
	pending []*loss
}

func (l *link) commands() {
	defer l.close()
	r := bufio.NewReaderSize(l.client, 64<<10) // more than is sent at once
	for {
		first := r.Buffered() == 0
		command, raw, err := readCommand(r)
		if err != nil {
			return
		}
		if first {
			l.wire.travel()
		}
		l.wire.pass()
		lose := l.wire.record(command)
		// Subscriptions answer with pushes, or with as many messages as
		// there are channels; these are passed on without counting.
		if !strings.HasSuffix(command.Name, "SUBSCRIBE") {
			l.mu.Lock()
			l.pending = append(l.pending, lose)
			l.mu.Unlock()
		}
		if _, err := l.server.Write(raw); err != nil {
			return
		}
	}
}

func (l *link) replies() {
	defer l.close()
	r := bufio.NewReader(l.server)
	for {
		raw, push, err := readReply(r)
		if err != nil {
			return
		}
		if !push {
			if lose := l.answered(); lose != nil {
				lose.between()
				l.close()
				close(lose.done)
				return
			}
		}
		l.wire.pass()
		if _, err := l.client.Write(raw); err != nil {
			return
		}
	}
}

func (l *link) answered() *loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return nil
	}
	lose := l.pending[0]
	l.pending = l.pending[1:]
	return lose
}

// close ends both connections; closing twice does nothing.
func (l *link) close() {
	_ = errors.Join(l.client.Close(), l.server.Close())
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	delete(l.wire.links, l)
}
