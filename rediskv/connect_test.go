package rediskv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// dials are connections that are no sockets of the system: nobody can look whether
// one is dead but by using it.
type dials struct {
	mu         sync.Mutex
	open, most int
}

type dialed struct {
	net.Conn
	ends func()
}

func (d dialed) Close() error {
	d.ends()
	return d.Conn.Close()
}

func (d *dials) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.count(1)
	return dialed{conn, sync.OnceFunc(func() { d.count(-1) })}, nil
}

func (d *dials) count(change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open += change
	d.most = max(d.most, d.open)
}

// pings asks for as many answers at once.
func pings(t *testing.T, s interface{ Ping(context.Context) error }, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := s.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// There are as many connections as the options say, or the URL.
func TestConnectionsAreBounded(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).Addr)
	wire.Delay(20 * time.Millisecond)
	const batches = 4 // those that there are from the start
	for _, c := range []struct {
		url        string
		pool, most int
	}{{"?pool_size=3", 0, 3}, {"", 4, 4}, {"?pool_size=3", 5, 5}, {"", 0, batches + max(256, 10*runtime.GOMAXPROCS(0))}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			d := new(dials)
			s := testkit.Open(t, rediskv.Options{URL: wire.URL + c.url, Clock: time.Now, Dial: d.dial, Pool: c.pool})
			pings(t, s, max(40, 2*c.most))
			if d.most != c.most {
				t.Errorf("%d connections at once, want %d", d.most, c.most)
			}
		})
	}
}

// After a restart of Redis all connections are dead, and no request meets that.
func TestDeadConnections(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).Addr)
	d := new(dials)
	s := testkit.Open(t, rediskv.Options{URL: wire.URL, Clock: time.Now, Dial: d.dial, Pool: 8})
	for range 5 {
		wire.Delay(20 * time.Millisecond)
		pings(t, s, 8)
		wire.Delay(0)
		if d.open < 8 {
			t.Fatalf("%d connections are open", d.open)
		}
		wire.Cut()
		pings(t, s, 1)
	}
	for range 5 { // a transaction, which is not sent again by itself
		pings(t, s, 8)
		wire.Cut()
		if _, err := s.WebhookList(t.Context(), "org_any"); err != nil {
			t.Error(err)
		}
	}
}

// reply is an error that Redis answers with.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// A master that has just taken another's place has no scripts. Where a call ends before it
// has them, clients are told to try again, not that something is wrong here.
func TestRepliesThatPass(t *testing.T) {
	for text, want := range map[string]tollgate.Code{
		"NOSCRIPT No matching script. Please use EVAL.": tollgate.CodeStoreUnavailable,
		"CLUSTERDOWN The cluster is down":               tollgate.CodeStoreUnavailable,
		"WRONGTYPE Operation against a key":             "",
	} {
		e, _ := errors.AsType[*tollgate.Error](rediskv.Unavailable("create_payment", reply(text)))
		if (e == nil) != (want == "") || e != nil && e.Code != want {
			t.Errorf("%s: %v, not %s", text, e, want)
		}
	}
}
