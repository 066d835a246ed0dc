package delivery

import (
	"context"
	"sync"
	"time"

	"tollgate/handlers/worker/loop"
	"tollgate/rediskv/store"
	"tollgate/rediskv/webhooks"
)

// gather is for how long an attempt that has ended waits for others.
const gather = time.Millisecond / 4

// records writes down how attempts ended. Those of one endpoint that end while
// a call for it is on its way go together in the next: a busy endpoint costs
// Redis one script for many attempts, and a quiet one waits for nobody. One that began
// beside others is about to end beside others, and waits for them for a moment.
type records struct {
	store *store.Store
	lease time.Duration

	mu      sync.Mutex
	waiting map[string][]*record // by endpoint; there while somebody writes for it
}

// record is an attempt that waits to be written down.
type record struct {
	webhooks.Ended
	ctx  context.Context // until its lease is certainly over
	done chan struct{}

	result webhooks.Recorded
	err    error
}

func newRecords(store *store.Store, lease time.Duration) *records {
	return &records{store: store, lease: lease, waiting: map[string][]*record{}}
}

// write returns when the attempt is written down. While Redis is away it is
// tried again for as long as the lease can hold.
func (r *records) write(ctx context.Context, e webhooks.Ended) (webhooks.Recorded, error) {
	held, cancel := context.WithTimeout(ctx, r.lease)
	defer cancel()
	one := &record{Ended: e, ctx: held, done: make(chan struct{})}
	endpoint := e.Work.Organization + "/" + e.Work.Endpoint.ID
	r.mu.Lock()
	_, busy := r.waiting[endpoint]
	r.waiting[endpoint] = append(r.waiting[endpoint], one)
	r.mu.Unlock()
	if !busy {
		go r.flush(ctx, endpoint, e.Work.Beside())
	}
	<-one.done
	return one.result, one.err
}

// flush writes for an endpoint until nothing waits any more.
func (r *records) flush(ctx context.Context, endpoint string, beside bool) {
	if beside {
		loop.Wait(ctx, gather, nil)
	}
	var batch []*record
	pause := loop.ShortPause
	for {
		if batch = r.more(endpoint, batch); len(batch) == 0 {
			return
		}
		err := r.send(ctx, batch)
		if loop.Away(err) {
			batch = expire(batch, err)
			loop.Wait(ctx, pause, nil)
			pause = loop.Longer(pause)
			continue
		}
		if err != nil && len(batch) > 1 { // the fault of one is not that of the others
			for i := range batch {
				batch[i].end(r.send(ctx, batch[i:i+1]))
			}
		} else {
			for _, one := range batch {
				one.end(err)
			}
		}
		batch, pause = nil, loop.ShortPause
	}
}

// more fills a batch up.
func (r *records) more(endpoint string, batch []*record) []*record {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.waiting[endpoint]
	n := min(len(waiting), webhooks.MostAtOnce-len(batch))
	batch = append(batch, waiting[:n]...)
	if len(batch) == 0 {
		delete(r.waiting, endpoint)
	} else {
		r.waiting[endpoint] = waiting[n:]
	}
	return batch
}

func (r *records) send(ctx context.Context, batch []*record) error {
	ended := make([]webhooks.Ended, len(batch))
	for i, one := range batch {
		ended[i] = one.Ended
	}
	recorded, err := r.store.RecordAttempts(ctx, ended)
	for i := range recorded {
		batch[i].result = recorded[i]
	}
	return err
}

// expire ends those whose lease is over and returns the others.
func expire(batch []*record, err error) (left []*record) {
	for _, one := range batch {
		if one.ctx.Err() != nil {
			one.end(err)
		} else {
			left = append(left, one)
		}
	}
	return left
}

func (one *record) end(err error) {
	one.err = err
	close(one.done)
}
