package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/cmd/tollgate/server"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// storeTimeout bounds an operation on Redis, all attempts together (interface
// §8); the rest is a busy machine. Who waited for Redis would hang for patience.
const storeTimeout, slack = 2 * time.Second, 10 * time.Second

// With Redis away, what needs it says so in time, what does not goes on, and
// all of it comes back by itself, leaving no goroutine behind.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	s.hasty()
	server := s.serve("--metrics-addr", "127.0.0.1:0")
	base := server.serving()
	metrics := server.marks["metrics_addr"].(string)
	s.authenticate(base)
	const payment = `{"amount":"100.00","currency":"EUR","payee":"shop.example"}`
	s.must(http.StatusOK, "POST", base+"/v1/quotes", "", payment) // fills the cache
	var paid atomic.Int64
	pay := func(key string) {
		// A stall of the machine can take an operation all the time that it has.
		for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			r, err := s.send("POST", base+"/v1/payments", key, payment)
			if err == nil && r.StatusCode == http.StatusCreated {
				paid.Add(1)
				return
			}
			if err != nil || r.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) {
				t.Errorf("payment %s: %v %s", key, err, r.Text)
				return
			}
		}
	}
	pay("before")
	// Every connection that the pool will ever have, so that what is counted
	// now can be compared with what is counted after.
	together(32, func(n int) { pay(fmt.Sprintf("warm-%d", n)) })
	before := settled(t, metrics, 1<<30)

	for name, outage := range map[string]struct{ begin, end func() }{
		"refused": {wire.Refuse, wire.Accept}, "silent": {wire.Pause, wire.Resume},
	} {
		t.Run(name, func(t *testing.T) {
			outage.begin()
			ended := false
			defer func() {
				if !ended {
					outage.end()
				}
			}()
			ask := func(n int) time.Duration {
				// Until Redis is back nobody knows whether this was carried out:
				// the client asks again with the key, below.
				begin := time.Now()
				r, err := s.send("POST", base+"/v1/payments", fmt.Sprintf("%s-%d", name, n), payment)
				took := time.Since(begin)
				if err != nil || r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" ||
					!regexp.MustCompile(`"code":"store_unavailable"`).MatchString(r.Text) {
					t.Errorf("payment: %v %s", err, r.Text)
				}
				if took > storeTimeout+slack {
					t.Errorf("payment: answered after %s", took)
				}
				return took
			}
			together(16, func(n int) { ask(n) })
			fastest := ask(0) // a stall does not meet all
			for n := 1; n < 5 && fastest > storeTimeout+time.Second; n++ {
				fastest = min(fastest, ask(n))
			}
			if fastest > storeTimeout+time.Second {
				t.Errorf("payment: answered after %s at best", fastest)
			}
			fastest = patience
			for range 20 {
				// Its token is verified, its price comes from the cache.
				begin := time.Now()
				s.must(http.StatusOK, "POST", base+"/v1/quotes", "", payment)
				took := time.Since(begin)
				if fastest = min(fastest, took); took > slack {
					t.Errorf("quote: answered after %s", took)
				}
			}
			if fastest > storeTimeout/2 { // it waits for nothing
				t.Errorf("quote: answered after %s at best", fastest)
			}
			s.must(http.StatusOK, "GET", base+"/healthz", "", "")
			testkit.Eventually(t, "its heartbeat has failed", func() bool { // once a second
				a, err := clitest.Send(t.Context(), "", "GET", base+"/readyz", "")
				return err == nil && a.StatusCode == http.StatusServiceUnavailable
			})
			r, err := s.askToken(base)
			if err != nil || r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
				t.Errorf("token: %v %s", err, r.Text)
			}

			outage.end()
			ended = true
			testkit.Eventually(t, "ready again", func() bool {
				r, err := s.send("GET", base+"/readyz", "", "")
				return err == nil && r.StatusCode == http.StatusOK
			})
			// The push subscribes again and makes the cache doubt all that it has:
			// it is read again now, not in the next outage.
			for until := time.Now().Add(500 * time.Millisecond); time.Now().Before(until); {
				s.must(http.StatusOK, "POST", base+"/v1/quotes", "", payment)
			}
			for n := range 16 {
				pay(fmt.Sprintf("%s-%d", name, n))
			}
			s.authenticate(base)
		})
	}
	var found int
	for _, e := range pages[seenEvent](s, base+"/v1/events?limit=100&types=payment.*") {
		if e.Type == "payment.authorized" {
			found++
		}
	}
	if int64(found) != paid.Load() {
		t.Errorf("%d payments were acknowledged, %d made", paid.Load(), found)
	}
	settled(t, metrics, before)
}

// A server that is started together with its Redis waits for it.
func TestRedisComesLater(t *testing.T) {
	t.Parallel()
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	s.hasty()
	wire.Refuse()
	server := s.serve()
	testkit.Eventually(t, "it says that it waits", func() bool { return server.says("redis cannot be reached, waiting") })
	wire.Accept()
	s.authenticate(server.serving())
	base := server.serving()
	testkit.Eventually(t, "ready", func() bool {
		r, err := s.send("GET", base+"/readyz", "", "")
		return err == nil && r.StatusCode == http.StatusOK
	})
}

// A Redis that does not come is no reason to wait for ever.
func TestRedisNeverComes(t *testing.T) {
	t.Parallel()
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	s.hasty()
	wire.Refuse()
	server := s.serve("--redis-wait", "300ms")
	if code := server.exit(); code == 0 || !server.says("redis cannot be reached") {
		t.Errorf("exit code %d: %v", code, server.lines)
	}
}

// settled waits until a server has at most so many goroutines, with a few for
// connections that come and go, and returns how many it has.
func settled(t *testing.T, metrics string, atMost int) int {
	t.Helper()
	const comingAndGoing = 6
	count := 0
	testkit.Eventually(t, fmt.Sprintf("no more than %d goroutines", atMost), func() bool {
		clitest.Remote.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+metrics+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := clitest.Receive(req)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`).FindStringSubmatch(r.Text)
		if found == nil {
			t.Fatalf("no go_goroutines in\n%s", r.Text)
		}
		count, _ = strconv.Atoi(found[1])
		return count <= atMost+comingAndGoing
	})
	return count
}

// together runs n calls at the same time.
func together(n int, call func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { call(i) })
	}
	all.Wait()
}

// A password that Redis refuses will be refused the next time as well: it is
// said at once.
func TestRedisRefuses(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.RequireAuth("right")
	for _, url := range []string{"redis://" + m.Addr(), "redis://:wrong@" + m.Addr(), "redis://" + m.Addr() + "," + m.Addr()} {
		start := time.Now()
		_, _, err := server.OpenStore(t.Context(), rediskv.Options{URL: url, Clock: time.Now, Entropy: rand.Reader, Log: slog.New(slog.DiscardHandler)}, patience, false)
		var exit *cli.ExitError
		if !errors.As(err, &exit) || exit.Code != cli.ExitUsage || !strings.Contains(err.Error(), "refuses the user or the password") {
			t.Errorf("%s: %v", url, err)
		}
		if took := time.Since(start); took > patience/2 {
			t.Errorf("%s: said after %s", url, took)
		}
	}
}
