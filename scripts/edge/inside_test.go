package edge_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/edge/edgetest"
	"tollgate/rediskv"
	"tollgate/rediskv/testkit"
)

const purchase = `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`

// leave makes a request over a connection of its own, which it resets when ctx ends:
// of one that is only closed workerd thinks that it may still read.
func (p *pair) leave(ctx context.Context, method, path, body, key string) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetLinger(0)
		}
		return conn, err
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, method, p.edge+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Authorization": {"Bearer " + p.token}, "Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	if method == "GET" {
		r.Body = nil
		r.Header = http.Header{"Authorization": {"Bearer " + p.token}}
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// idle waits until no request is under way in a program.
func (p *pair) idle(why string) {
	p.t.Helper()
	testkit.Within(p.t, why, 10*time.Second, func() bool { return p.runtime.Look().Requests == 0 })
}

// A long poll whose client has gone ends at once, and makes room for the next.
func TestLongPollsClientGone(t *testing.T) {
	p := newHarness(t, "TOLLGATE_EDGE_SHARDS=1")
	const polls = "/v1/events?after=latest&wait=20"
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		for range 4 {
			gone.Go(func() { _ = p.leave(ctx, "GET", polls, "", "") })
		}
		testkit.Eventually(t, "the polls are there", func() bool { return p.runtime.Look().Requests == 4 })
		leave()
		gone.Wait()
		p.idle("they have ended before their time")
	}
	answered := make(chan reply)
	go func() { answered <- p.call(p.edge, "GET", polls, "") }()
	testkit.Eventually(t, "the next is there", func() bool { return p.runtime.Look().Requests == 1 })
	testkit.Eventually(t, "it is answered with what comes", func() bool {
		if r := p.call(p.edge, "POST", "/v1/payments", purchase, "Idempotency-Key", fmt.Sprint("k", time.Now().UnixNano())); r.status != 201 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		select {
		case r := <-answered:
			return r.status == 200 && strings.Contains(r.body, "payment.")
		default:
			return false
		}
	})
}

// A payment whose client goes is made or not, and its key says which.
func TestPaymentsClientGone(t *testing.T) {
	p := newHarness(t, "TOLLGATE_EDGE_SHARDS=1")
	count, cut := rounds(40, 1000), 0
	for n := range count {
		key := fmt.Sprint("k", n)
		ctx, leave := context.WithTimeout(t.Context(), time.Duration(n%20)*250*time.Microsecond)
		if err := p.leave(ctx, "POST", "/v1/payments", purchase, key); err != nil {
			cut++
		}
		leave()
		first := p.call(p.edge, "POST", "/v1/payments", purchase, "Idempotency-Key", key)
		if again := p.call(p.native, "POST", "/v1/payments", purchase, "Idempotency-Key", key); first.status != 201 || again.body != first.body {
			t.Errorf("%s: %d %s, then %s", key, first.status, first.body, again.body)
		}
	}
	p.idle("all have ended")
	if made := p.payments(); made != count {
		t.Errorf("%d payments of %d keys", made, count)
	}
	if cut == 0 {
		t.Error("no client went in time")
	}
}

// A file of 100 MB comes whole to a client that takes its time, and is never whole
// in memory.
func TestLargeFile(t *testing.T) {
	p := newHarness(t, "TOLLGATE_EDGE_SHARDS=1")
	size := rounds(32, 100)
	id, sum := p.export(size)
	before := p.runtime.Look().Memory
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.edge+"/v1/exports/"+id+"/file", nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+p.token)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	have, n, b := sha256.New(), 0, make([]byte, 1<<20)
	for err == nil {
		var read int
		read, err = io.ReadFull(answer.Body, b)
		n += read
		have.Write(b[:read])
		time.Sleep(5 * time.Millisecond)
	}
	if answer.StatusCode != 200 || n != size<<20 || hex.EncodeToString(have.Sum(nil)) != sum {
		t.Errorf("%d, %d bytes of %d: %v", answer.StatusCode, n, size<<20, err)
	}
	after := p.runtime.Look().Memory
	t.Logf("%d MB: the guest had %d MB, and has %d", size, before[0]>>20, after[0]>>20)
	if len(after) != 1 || after[0]-before[0] > 16<<20 {
		t.Errorf("memory grew from %v to %v", before, after)
	}
}

// export makes an export whose file has so many MiB, as a worker does.
func (p *pair) export(size int) (id, sum string) {
	t := p.t
	t.Helper()
	r := p.call(p.native, "POST", "/v1/exports/preview", `{"dataset":"transactions"}`, "Idempotency-Key", "export")
	var e tollgate.Export
	must(t, json.Unmarshal([]byte(r.body), &e))
	random, b, h := mathrand.NewChaCha8([32]byte{1}), make([]byte, 1<<20), sha256.New()
	for partition := range p.store.Partitions() {
		j, err := p.store.NextExport(t.Context(), partition, "test", time.Millisecond, nil)
		must(t, err)
		if j == nil {
			continue
		}
		for range size {
			_, _ = random.Read(b)
			h.Write(b)
			must(t, p.store.AppendExport(t.Context(), j, b))
		}
		ch, err := tollgate.FinishExport(p.store.NewID, p.store.Origin(rediskv.Caller{Organization: j.Organization}), j.Export, j.File())
		must(t, err)
		must(t, p.store.EndJob(t.Context(), j, ch))
		return j.ID, hex.EncodeToString(h.Sum(nil))
	}
	t.Fatalf("there is no export: %d %s", r.status, r.body)
	return "", ""
}

// load sends count requests over some connections: quotes, and a payment now and
// then. It calls answered with each number and reply.
func (p *pair) load(connections, count, payEvery int, answered func(n int, r reply)) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range connections {
		all.Go(func() {
			for n := int(next.Add(1)); n <= count; n = int(next.Add(1)) {
				if n%payEvery == 0 {
					answered(n, p.call(p.edge, "POST", "/v1/payments", purchase, "Idempotency-Key", fmt.Sprint("load", n)))
				} else {
					answered(n, p.call(p.edge, "POST", "/v1/quotes", fmt.Sprintf(`{"amount":"%d.%02d","currency":"EUR","payee":"shop.example"}`, 1+n%900, n%100)))
				}
			}
		})
	}
	all.Wait()
}

// A guest stays small however much it is asked.
func TestMemory(t *testing.T) {
	edgetest.NeededForAll(t)
	p := newHarness(t, "TOLLGATE_EDGE_SHARDS=1")
	const count = 100_000
	p.load(8, count, 50, func(n int, r reply) {
		if r.status != 200 && r.status != 201 {
			t.Errorf("%d: %d %s", n, r.status, r.body)
		}
	})
	memory := p.runtime.Look().Memory
	t.Logf("after %d requests the guest has %.1f MB", count, float64(memory[0])/1e6)
	if len(memory) != 1 || memory[0] > 64e6 {
		t.Errorf("the guest has %v bytes, at most 64 MB", memory)
	}
}

// Redis is killed and comes back while requests arrive: none fails in another way than
// with a time to come back, and what was acknowledged is there.
func TestRedisRestartsUnderLoad(t *testing.T) {
	edgetest.NeededForAll(t)
	p := newPair(t)
	const count = 50_000
	var mu sync.Mutex
	var acknowledged []string
	var refused, seen atomic.Int64
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		p.load(4, count, 5, func(n int, r reply) {
			seen.Add(1)
			switch {
			case r.status == 201:
				var payment tollgate.Payment
				if err := json.Unmarshal([]byte(r.body), &payment); err != nil {
					t.Errorf("%d: %v: %s", n, err, r.body)
				}
				mu.Lock()
				acknowledged = append(acknowledged, payment.ID)
				mu.Unlock()
			case r.status == 503 && r.header.Get("Retry-After") != "":
				refused.Add(1)
			case r.status != 200:
				t.Errorf("%d: %d %s", n, r.status, r.body)
			}
		})
	}()
	for part := range 3 {
		at := int64(count * (part + 1) / 4)
		testkit.Within(t, "so many requests", 20*time.Minute, func() bool { return seen.Load() >= at })
		p.server.Kill()
		before := refused.Load()
		testkit.Eventually(t, "somebody is refused", func() bool { return refused.Load() > before || seen.Load() == int64(count) })
		p.server.Restart()
	}
	<-loaded
	t.Logf("%d requests, %d refused, %d payments", count, refused.Load(), len(acknowledged))
	if refused.Load() == 0 || len(acknowledged) == 0 {
		t.Error("nothing was refused, or nothing was paid")
	}
	testkit.Eventually(t, "Redis is there", func() bool { return p.call(p.edge, "GET", "/readyz", "").status == 200 })
	for _, id := range acknowledged {
		var r reply
		testkit.Eventually(t, "Redis is there for the native service", func() bool {
			r = p.call(p.native, "GET", "/v1/payments/"+id, "")
			return r.status != 503
		})
		if r.status != 200 {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
	}
}

// counter is in front of Redis, and counts the connections that are open.
type counter struct {
	address    string
	open, most atomic.Int64
}

func newCounter(t *testing.T, redis string) *counter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &counter{address: l.Addr().String()}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.pass(client, redis)
		}
	}()
	return c
}

func (c *counter) pass(client net.Conn, redis string) {
	defer client.Close()
	server, err := net.Dial("tcp", redis)
	if err != nil {
		return
	}
	defer server.Close()
	open := c.open.Add(1)
	defer c.open.Add(-1)
	for most := c.most.Load(); open > most && !c.most.CompareAndSwap(most, open); most = c.most.Load() {
	}
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// An object never has more connections than a runtime allows it.
func TestSixConnections(t *testing.T) {
	p := makePair(t, "TOLLGATE_EDGE_SHARDS=1")
	proxy := newCounter(t, strings.TrimPrefix(p.redis, "redis://"))
	p.env = append(p.env, "TOLLGATE_REDIS_URL=redis://"+proxy.address)
	p.run()
	ctx, leave := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	for range 10 {
		polls.Go(func() {
			for ctx.Err() == nil {
				_ = p.leave(ctx, "GET", "/v1/events?after=latest&wait=5", "", "")
			}
		})
	}
	p.load(30, rounds(300, 10_000), 2, func(n int, r reply) {
		if r.status >= 300 && r.status != 429 && r.status != 503 {
			t.Errorf("%d: %d %s", n, r.status, r.body)
		}
		if list := p.call(p.edge, "GET", "/v1/payments?limit=1", ""); list.status != 200 && list.status != 429 && list.status != 503 {
			t.Errorf("%d %s", list.status, list.body)
		}
	})
	leave()
	polls.Wait()
	t.Logf("at most %d connections at once", proxy.most.Load())
	if most := proxy.most.Load(); most < 2 || most > 6 {
		t.Errorf("%d connections at once, at most 6", most)
	}
}

// Where the clock stands still between I/O, requests are answered, waits end, and
// nothing spins.
func TestClockStandsStill(t *testing.T) {
	edgetest.NeededForAll(t)
	p := newHarness(t, "TOLLGATE_EDGE_SHARDS=1")
	wall := time.Now().UnixMilli()
	var ids []string
	for moment := range int64(3) {
		p.runtime.Set(edgetest.Clock{Still: true, Wall: wall + moment})
		var mu sync.Mutex
		var made []string
		p.load(5, 50, 1, func(n int, _ reply) {
			r := p.call(p.edge, "POST", "/v1/payments", purchase, "Idempotency-Key", fmt.Sprintf("still-%d-%d", moment, n))
			var payment tollgate.Payment
			if err := json.Unmarshal([]byte(r.body), &payment); err != nil || r.status != 201 {
				t.Errorf("%d %s", r.status, r.body)
			}
			mu.Lock()
			made = append(made, payment.ID)
			mu.Unlock()
		})
		slices.Sort(made)
		if len(slices.Compact(slices.Clone(made))) != 50 || len(ids) > 0 && made[0] <= ids[len(ids)-1] {
			t.Errorf("the ids of a moment: %v, after those of the one before: %v", made, ids)
		}
		ids = made
	}
	p.runtime.Set(edgetest.Clock{Still: true})
	if r := p.call(p.edge, "GET", "/v1/events?after=latest&wait=1", ""); r.status != 200 || !strings.Contains(r.body, `"data":[]`) {
		t.Errorf("a wait: %d %s", r.status, r.body)
	}
	p.server.Kill()
	if r := p.call(p.edge, "POST", "/v1/payments", purchase, "Idempotency-Key", "away"); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("without Redis: %d %s", r.status, r.body)
	}
	p.server.Restart()
	testkit.Eventually(t, "payments go on", func() bool {
		return p.call(p.edge, "POST", "/v1/payments", purchase, "Idempotency-Key", "away").status == 201
	})
	before, used := p.runtime.Look().Resumed, p.runtime.CPU()
	time.Sleep(2 * time.Second) // in which nothing is asked
	resumed, took := p.runtime.Look().Resumed-before, p.runtime.CPU()-used
	t.Logf("in 2 s without a request it went on %d times, and took %v of the processor", resumed, took)
	if resumed > 400 {
		t.Errorf("it went on %d times in 2 s, without a request", resumed)
	}
}

// payments is how many there are.
func (p *pair) payments() (made int) {
	p.t.Helper()
	for cursor := ""; ; {
		var page tollgate.List[tollgate.Payment]
		must(p.t, json.Unmarshal([]byte(p.call(p.native, "GET", "/v1/payments?limit=100"+cursor, "").body), &page))
		if made += len(page.Data); page.NextCursor == nil {
			return made
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}
