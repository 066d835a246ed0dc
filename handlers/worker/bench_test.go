package worker_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/webhooks"
)

// verifier is a receiver that checks every signature.
func verifier(b testing.TB, key tollgate.WebhookKey, arrived func(*http.Request, []byte)) string {
	hook, err := standardwebhooks.NewWebhook(key.Text())
	if err != nil {
		b.Fatal(err)
	}
	return receiver(b, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if err := hook.VerifyIgnoringTimestamp(body, req.Header); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
		arrived(req, body)
	}).URL
}

// cost is what some deliveries took: time, this process' CPU (sender and
// receiver) and Redis'.
type cost struct{ took, cpu, redis time.Duration }

func spent(b *testing.B, address string) cost {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return cost{time.Duration(time.Now().UnixNano()), time.Duration(u.Utime.Nano() + u.Stime.Nano()), redisCPU(b, address)}
}

func (c *cost) add(from, to cost) {
	c.took += to.took - from.took
	c.cpu += to.cpu - from.cpu
	c.redis += to.redis - from.redis
}

// redisCPU is what a single server says; zero for miniredis, which is this
// process, and for a cluster.
func redisCPU(b *testing.B, address string) (total time.Duration) {
	if redistest.Kind(b) != redistest.Real {
		return 0
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(address, "redis://"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "INFO cpu\r\nQUIT\r\n"); err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`).FindAllSubmatch(text, -1) {
		seconds, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		total += time.Duration(seconds * float64(time.Second))
	}
	return total
}

// BenchmarkDeliveries delivers a backlog to one endpoint that verifies every
// signature, and then sends one of the bodies as often with the same Sender in
// a bare loop of as many goroutines as an endpoint gets at once: with one core
// for worker and receiver, so that on a machine of two Redis has the other, as
// it has a machine of its own where it matters; and with all cores, which Redis
// then shares.
func BenchmarkDeliveries(b *testing.B) {
	for name, cores := range map[string]int{"own": 1, "shared": runtime.NumCPU()} {
		b.Run(name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
			deliveries(b)
		})
	}
}

func deliveries(b *testing.B) {
	const backlog = 2000
	address := redistest.URL(b)
	s := newShop(b, address)
	s.Clock.Set(time.Now())
	s.Clock.ticks(b)
	key := newKey(b, 1, tollgate.SignatureV1)
	var count atomic.Int64
	var last atomic.Pointer[[]byte]
	url := verifier(b, key, func(_ *http.Request, body []byte) {
		last.Store(&body)
		count.Add(1)
	})
	s.hook(b, url, nil, key)
	var delivered, bare cost
	for b.Loop() {
		for range backlog {
			s.pay(b, 1000)
		}
		count.Store(0)
		from := spent(b, address)
		stop := s.work(b, worker.Config{Interval: time.Second})
		until(b, "all deliveries", func() bool { return count.Load() == backlog })
		delivered.add(from, spent(b, address))
		stop()

		sender := delivery.NewSender(delivery.SenderConfig{Clock: time.Now, Development: true})
		m := message(url, key)
		m.Body = *last.Load()
		from = spent(b, address)
		var group sync.WaitGroup
		var sent atomic.Int64
		for range webhooks.MostAtOnce {
			group.Go(func() {
				for sent.Add(1) <= backlog {
					if !sender.Send(b.Context(), m).Succeeded() {
						b.Error("not taken")
					}
				}
			})
		}
		group.Wait()
		bare.add(from, spent(b, address))
		sender.Close()
	}
	n := float64(b.N * backlog)
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / n }
	b.ReportMetric(n/delivered.took.Seconds(), "deliveries/s")
	b.ReportMetric(bare.took.Seconds()/delivered.took.Seconds(), "of-bare")
	b.ReportMetric(bare.cpu.Seconds()/delivered.cpu.Seconds(), "cpu-of-bare")
	b.Logf("%-12s %10s %14s %18s", "", "per second", "CPU each (µs)", "Redis' CPU (µs)")
	b.Logf("%-12s %10.0f %14.0f %18s", "bare POSTs", n/bare.took.Seconds(), each(bare.cpu), "-")
	b.Logf("%-12s %10.0f %14.0f %18.0f", "deliveries", n/delivered.took.Seconds(), each(delivered.cpu), each(delivered.redis))
	b.Logf("%-12s %10.2f %14.2f", "ratio", bare.took.Seconds()/delivered.took.Seconds(), bare.cpu.Seconds()/delivered.cpu.Seconds())
}

// ticks lets a clock go with the time: leases and pauses are part of what is
// measured.
func (c *clock) ticks(b testing.TB) {
	stop := make(chan struct{})
	b.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				c.Set(time.Now())
			}
		}
	}()
}

// BenchmarkLatency is the time from the commit of an event to the arrival of
// its first attempt, at about 100 events a second, alone and beside endpoints
// that take three seconds for each answer. The ratio of the last may be 3.
func BenchmarkLatency(b *testing.B) {
	var alone float64
	b.Logf("%-24s %9s %9s %9s", "", "p50 (ms)", "p99 (ms)", "of alone")
	for _, slow := range []int{0, 1, 16} {
		b.Run("beside"+strconv.Itoa(slow), func(b *testing.B) {
			all := latencies(b, slow)
			slices.Sort(all)
			at := func(p float64) float64 { return float64(all[int(p*float64(len(all)-1))].Microseconds()) / 1000 }
			b.ReportMetric(at(.5), "p50-ms")
			b.ReportMetric(at(.99), "p99-ms")
			if slow == 0 {
				alone = at(.99)
			}
			b.Logf("%-24s %9.2f %9.2f %9.2f", fmt.Sprintf("beside %d that take 3 s", slow), at(.5), at(.99), at(.99)/alone)
		})
	}
}

func latencies(b *testing.B, slow int) (all []time.Duration) {
	s := newShop(b, redistest.URL(b))
	s.Clock.Set(time.Now())
	key := newKey(b, 1, tollgate.SignatureV1)
	arrivals := make(chan time.Time, 1)
	s.hook(b, verifier(b, key, func(*http.Request, []byte) { arrivals <- time.Now() }), nil, key)
	for range slow {
		s.hook(b, verifier(b, key, func(req *http.Request, _ []byte) {
			select {
			case <-time.After(3 * time.Second):
			case <-req.Context().Done():
			}
		}), nil, key)
	}
	s.Clock.ticks(b)
	s.work(b, worker.Config{Interval: time.Second, Grace: time.Millisecond})
	event := func() time.Duration {
		next := time.Now().Add(10 * time.Millisecond)
		s.pay(b, 1000)
		start := time.Now()
		defer func() { time.Sleep(time.Until(next)) }()
		return (<-arrivals).Sub(start)
	}
	for range 100 { // connections are made, caps found
		event()
	}
	for b.Loop() {
		all = append(all, event())
	}
	return all
}
