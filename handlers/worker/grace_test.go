package worker_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// The grace of the attempts begins with the end, not when Redis has let go of
// whoever waits for it.
func TestGraceBesideSlowRedis(t *testing.T) {
	url := redistest.URL(t)
	s := newShop(t, url)
	in := newInbox(t)
	arrived, broken := make(chan struct{}), make(chan struct{})
	in.answers(func(_ http.ResponseWriter, req *http.Request) {
		close(arrived)
		<-req.Context().Done()
		close(broken)
	})
	s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))

	release := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	waiting := make(chan struct{}, 1)
	store := openWith(t, rediskv.Options{
		URL: url, Clock: s.Clock.Now, Timeout: redistest.Patience,
		Observe: func(operation string, _ time.Duration, _ error) {
			if operation != "fan_out" {
				return
			}
			select {
			case <-arrived:
			default:
				return
			}
			select {
			case waiting <- struct{}{}:
			default:
			}
			<-release
		},
	})
	w := newWorker(t, worker.Config{
		Store: store, Clock: s.Clock.Now, Development: true, Interval: 20 * time.Millisecond, Grace: 50 * time.Millisecond,
		Lease: time.Hour, Timeouts: delivery.Timeouts{Connect: time.Minute, TLS: time.Minute, All: 30 * time.Minute},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	defer running.Wait()
	defer goOn()
	defer cancel()
	s.pay(t, 1000)
	<-arrived
	s.pay(t, 1000) // whose delivery is made
	<-waiting
	cancel()
	select {
	case <-broken:
	case <-time.After(redistest.Patience):
		t.Error("the attempt has the time that Redis takes on top of its grace")
	}
}
