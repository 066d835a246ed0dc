package worker_test

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv/redistest"
)

// verifier is a receiver that checks every signature.
func verifier(b *testing.B, key tollgate.WebhookKey, arrived func(*http.Request)) string {
	hook, err := standardwebhooks.NewWebhook(key.Text())
	if err != nil {
		b.Fatal(err)
	}
	return receiver(b, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if err := hook.VerifyIgnoringTimestamp(body, req.Header); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
		arrived(req)
	}).URL
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDeliveries delivers a backlog to one endpoint that verifies every
// signature, and then sends the same number of bodies with the same Sender in
// a bare loop of as many goroutines as an endpoint gets at once.
func BenchmarkDeliveries(b *testing.B) {
	const backlog, atOnce = 2000, 64
	s := newShop(b, redistest.URL(b))
	s.clock.milli.Store(time.Now().UnixMilli())
	s.clock.ticks(b)
	key := newKey(b, 1, tollgate.SignatureV1)
	var count atomic.Int64
	url := verifier(b, key, func(*http.Request) { count.Add(1) })
	s.hook(b, url, nil, key)
	var took, used, bare, bareUsed time.Duration
	for b.Loop() {
		for range backlog {
			s.pay(b, 1000)
		}
		count.Store(0)
		start, before := time.Now(), cpu()
		stop := s.work(b, worker.Config{})
		until(b, "all deliveries", func() bool { return count.Load() == backlog })
		took, used = took+time.Since(start), used+cpu()-before
		stop()

		sender := worker.NewSender(worker.SenderConfig{Clock: time.Now, Development: true})
		m := message(url, key)
		m.Body = make([]byte, 800)
		start, before = time.Now(), cpu()
		var group sync.WaitGroup
		for range atOnce {
			group.Go(func() {
				for range backlog / atOnce {
					if !sender.Send(b.Context(), m).Succeeded() {
						b.Error("not taken")
					}
				}
			})
		}
		group.Wait()
		bare, bareUsed = bare+time.Since(start), bareUsed+cpu()-before
		sender.Close()
	}
	n := float64(b.N * backlog)
	b.ReportMetric(n/took.Seconds(), "deliveries/s")
	b.ReportMetric(n/bare.Seconds(), "bare-posts/s")
	b.ReportMetric(float64(used.Microseconds())/n, "µs-cpu/delivery")
	b.ReportMetric(float64(bareUsed.Microseconds())/n, "µs-cpu/bare-post")
}

// ticks lets a clock go with the time: leases and pauses are part of what is
// measured.
func (c *clock) ticks(b *testing.B) {
	stop := make(chan struct{})
	b.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				c.milli.Store(time.Now().UnixMilli())
			}
		}
	}()
}

// BenchmarkLatency is the time from the commit of an event to the arrival of
// its first attempt, at about 100 events a second, alone and beside endpoints
// that take three seconds for each answer.
func BenchmarkLatency(b *testing.B) {
	for _, slow := range []int{0, 1, 16} {
		b.Run(map[int]string{0: "alone", 1: "beside1", 16: "beside16"}[slow], func(b *testing.B) {
			s := newShop(b, redistest.URL(b))
			s.clock.milli.Store(time.Now().UnixMilli())
			key := newKey(b, 1, tollgate.SignatureV1)
			arrivals := make(chan time.Time, 1)
			s.hook(b, verifier(b, key, func(*http.Request) { arrivals <- time.Now() }), nil, key)
			for range slow {
				s.hook(b, verifier(b, key, func(req *http.Request) {
					select {
					case <-time.After(3 * time.Second):
					case <-req.Context().Done():
					}
				}), nil, key)
			}
			s.clock.ticks(b)
			s.work(b, worker.Config{Grace: time.Millisecond})
			var all []time.Duration
			for b.Loop() {
				next := time.Now().Add(10 * time.Millisecond)
				s.pay(b, 1000)
				start := time.Now()
				all = append(all, (<-arrivals).Sub(start))
				time.Sleep(time.Until(next))
			}
			slices.Sort(all)
			at := func(p float64) float64 { return float64(all[int(p*float64(len(all)-1))].Microseconds()) / 1000 }
			b.ReportMetric(at(.5), "p50-ms")
			b.ReportMetric(at(.99), "p99-ms")
		})
	}
}
