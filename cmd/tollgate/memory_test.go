package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// memoryVariable has TestServeMemory and TestWorkMemory run: they take a minute
// (`make memory`).
const memoryVariable = "TOLLGATE_TEST_MEMORY"

// What serve may take up within a limit, and how it is asked.
const (
	serveLimit       = "120MiB"
	serveMemory      = 200 // MiB, resident, at most at any time: the limit is of Go's own memory alone
	serveConnections = 512
	serveRequests    = 40_000
)

// On 512 connections that all ask at once, serve keeps to GOMEMLIMIT. Without one it
// takes more, because it collects garbage at 400 %, and its copies of payments live
// (rediskv.DefaultPaymentBytes): how much is told.
func TestServeMemory(t *testing.T) {
	if os.Getenv(memoryVariable) == "" {
		t.Skip("runs in `make memory`")
	}
	for _, limit := range []string{serveLimit, ""} {
		t.Run("GOMEMLIMIT="+limit, func(t *testing.T) {
			s := newSite(t, redistest.Fresh(t).URL)
			if limit != "" {
				s.env = append(s.env, "GOMEMLIMIT="+limit)
			}
			serve := s.serve()
			base := serve.serving()
			s.authenticate(base)
			idle := resident(t, serve, "VmRSS")
			s.flood(base)
			most := resident(t, serve, "VmHWM")
			t.Logf("serve: %.0f MiB idle, at most %.0f MiB on %d connections", idle, most, serveConnections)
			if limit != "" && most > serveMemory {
				t.Errorf("%.0f MiB are resident, at most %d", most, serveMemory)
			}
		})
	}
}

// flood sends quotes and payments on all connections.
func (s *site) flood(base string) {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: serveConnections, MaxConnsPerHost: serveConnections}}
	defer client.CloseIdleConnections()
	var sent, refused atomic.Int64
	var clients sync.WaitGroup
	for range serveConnections {
		clients.Go(func() {
			for n := sent.Add(1); n <= serveRequests; n = sent.Add(1) {
				path := []string{"/v1/quotes", "/v1/payments"}[n%2]
				r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, base+path, strings.NewReader(`{"amount":"10.00","currency":"EUR","payee":"shop.example"}`))
				if err != nil {
					s.t.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+s.token)
				r.Header.Set("Content-Type", "application/json")
				if path == "/v1/payments" {
					r.Header.Set("Idempotency-Key", fmt.Sprint("key-", n))
				}
				answer, err := client.Do(r)
				if err != nil {
					s.t.Error(err)
					return
				}
				text, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				switch answer.StatusCode {
				case http.StatusOK, http.StatusCreated:
				case http.StatusTooManyRequests, http.StatusServiceUnavailable: // its share is in use
					refused.Add(1)
				default:
					s.t.Errorf("%s: %d %s", path, answer.StatusCode, text)
				}
			}
		})
	}
	clients.Wait()
	if n := refused.Load(); n > serveRequests/2 {
		s.t.Errorf("%d of %d were refused: this proves little", n, serveRequests)
	}
}

// What work may take up within a limit. An organization, and a host, gets another slot only
// while it has fewer than are free, so of n of them each gets one part in n+1.
const (
	workLimit = "120MiB"
	workSlots = 4096
	tenants   = 16 // organizations, each with a host of its own
	each      = 2  // endpoints of one of them
	inFlight  = workSlots / (tenants + 1) * tenants
)

// workMemory is in MiB, resident, at most at any time. With TLS a connection has 36 KiB,
// half of it the stacks of three goroutines, so that 3,840 of them are more than the limit.
var workMemory = map[string]float64{"http": 200, "https": 220}

// With nearly all of 4,096 slots in use, each with a connection of its own to a receiver
// that does not answer yet, work keeps to GOMEMLIMIT.
func TestWorkMemory(t *testing.T) {
	if os.Getenv(memoryVariable) == "" {
		t.Skip("runs in `make memory`")
	}
	redis := redistest.Fresh(t)
	for _, c := range []struct{ scheme, limit string }{{"http", workLimit}, {"https", workLimit}, {"https", ""}} {
		t.Run(c.scheme+", GOMEMLIMIT="+c.limit, func(t *testing.T) {
			if err := redis.Command("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			many := newCrowd(t, redis.URL, c.scheme)
			env := append(many.sites[0].env, fmt.Sprint("TOLLGATE_DELIVERY_SLOTS=", workSlots), "SSL_CERT_FILE="+many.root)
			if c.limit != "" {
				env = append(env, "GOMEMLIMIT="+c.limit)
			}
			work := launch(t, env, "work")
			testkit.Eventually(t, "the worker works", func() bool { return work.says("working") })
			idle := resident(t, work, "VmRSS")
			const first, then = 40, 160
			many.pay(first) // for each success an endpoint gets more at once
			testkit.Within(t, "the first deliveries", time.Minute, func() bool { return many.received.Load() == first*each*tenants })
			release := many.hold(t)
			many.pay(then)
			testkit.Within(t, fmt.Sprintf("%d attempts at the same time", inFlight), time.Minute, func() bool { return many.open.Load() >= inFlight })
			held := resident(t, work, "VmRSS")
			release()
			testkit.Within(t, "all deliveries", time.Minute, func() bool { return many.received.Load() >= (first+then)*each*tenants })
			most := resident(t, work, "VmHWM")
			t.Logf("work: %.0f MiB idle, %.0f MiB with %d attempts open, at most %.0f MiB", idle, held, inFlight, most)
			if c.limit != "" && most > workMemory[c.scheme] {
				t.Errorf("%.0f MiB are resident, at most %.0f", most, workMemory[c.scheme])
			}
		})
	}
}

// crowd is organizations that all send to hosts of their own.
type crowd struct {
	sites          []*site
	base, root     string
	open, received atomic.Int64
	gate           sync.RWMutex // receivers answer while nobody has it
	number         int
}

// newCrowd has them served, with endpoints that answer at once.
func newCrowd(t *testing.T, redisURL, scheme string) *crowd {
	t.Helper()
	c := &crowd{root: filepath.Join(t.TempDir(), "root.pem")}
	var hosts []net.IP
	for n := range tenants {
		hosts = append(hosts, net.IPv4(127, 0, 0, byte(n+1)))
	}
	cert, key := clitest.Certificate(t, "receiver", time.Now().Add(time.Hour), hosts...)
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil {
		err = os.WriteFile(c.root, cert, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, host := range hosts {
		address := c.receive(t, host, scheme == "https", pair)
		s := newSite(t, redisURL)
		c.sites = append(c.sites, s)
		s.env = append(s.env, loopbackVariable+"=1")
		if n == 0 {
			c.base = s.serve().serving()
		}
		s.authenticate(c.base)
		for i := range each {
			url := fmt.Sprintf("%s://%s/%d", scheme, address, i)
			s.must(http.StatusCreated, "POST", c.base+"/v1/webhooks", fmt.Sprint("hook-", i), fmt.Sprintf(`{"url":%q,"event_types":["payment.authorized"]}`, url))
		}
	}
	return c
}

// receive has a receiver listen at a host of this machine's own network.
func (c *crowd) receive(t *testing.T, host net.IP, secure bool, pair tls.Certificate) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	if address = l.Addr().String(); secure {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}})
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		c.open.Add(1)
		c.gate.RLock()
		c.received.Add(1)
		c.gate.RUnlock()
		c.open.Add(-1)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return address
}

// hold lets receivers answer nothing until release.
func (c *crowd) hold(t *testing.T) (release func()) {
	c.gate.Lock()
	release = sync.OnceFunc(c.gate.Unlock)
	t.Cleanup(release)
	return release
}

// pay has each organization make so many payments.
func (c *crowd) pay(payments int) {
	c.number++
	var all sync.WaitGroup
	for _, s := range c.sites {
		all.Go(func() {
			for n := range payments {
				r, err := s.send("POST", c.base+"/v1/payments", fmt.Sprint("pay-", c.number, "-", n), `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`)
				if err != nil || r.StatusCode != http.StatusCreated {
					s.t.Errorf("%v %d %s", err, r.StatusCode, r.Text)
					return
				}
			}
		})
	}
	all.Wait()
}
