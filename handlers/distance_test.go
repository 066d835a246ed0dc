package handlers_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"tollgate/handlers"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// queue is a share.Queue.
type queue interface {
	Turn(ctx context.Context, organization, client string) (done func(), err error)
	Waiting(organization string) int
}

// passes has an organization take a turn and end it.
func passes(t *testing.T, q queue, organization string) {
	t.Helper()
	done, err := q.Turn(t.Context(), organization, "cli_passing")
	check(t, err)
	done()
}

// turns is how many one organization gets of a resource beside another before it
// waits.
func turns(t *testing.T, q queue) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	passes(t, q, "org_other")
	got := make(chan func(), 1)
	var asking sync.WaitGroup
	var taken []func()
	for {
		asking.Go(func() {
			if done, err := q.Turn(ctx, "org_counting", "cli_counting"); err == nil {
				got <- done
			}
		})
		testkit.Within(t, "a turn, or that it is waited for", time.Minute, func() bool { return len(got) > 0 || q.Waiting("org_counting") > 0 })
		if len(got) == 0 {
			break
		}
		taken = append(taken, <-got)
	}
	cancel() // before anything is given back
	asking.Wait()
	for _, done := range taken {
		done()
	}
	return len(taken)
}

// TestDistantRedis: while Redis is on its way other requests are carried out, or
// a round trip would be the organization's bound. A Redis that is near again is
// shared as one that never was away.
func TestDistantRedis(t *testing.T) {
	w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	wire := redistest.Proxy(t, w.redis)
	i := w.aloneWith(rediskv.Options{URL: wire.URL, Timeout: rediskv.OperationTimeout})
	i.serveWith(func(c *handlers.Config) { c.Wall = time.Now })
	cores := runtime.GOMAXPROCS(0)
	requests, reads := i.server.Queue("requests", ""), i.server.Queue("reads", w.vars["org"])
	near, batches := turns(t, requests), turns(t, reads)
	if near != 2*cores || batches != 2 {
		t.Errorf("beside Redis: %d requests, %d batches", near, batches)
	}
	const away = 20 * time.Millisecond
	wire.Delay(away)
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() { i.server.Follow(ctx); close(followed) }()
	t.Cleanup(func() { cancel(); <-followed })
	testkit.Within(t, "more requests at once", time.Minute, func() bool { return turns(t, requests) >= near+80*cores })
	testkit.Within(t, "more batches at once", time.Minute, func() bool { return turns(t, reads) >= batches+20 })
	wire.Delay(0)
	testkit.Within(t, "as many as beside Redis, or nearly", time.Minute, func() bool { return turns(t, requests) < near+40*cores })
}
