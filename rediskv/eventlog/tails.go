package eventlog

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

const (
	// tailInterval is how late an event is noticed of which the push did not
	// arrive.
	tailInterval = time.Second
	// tailKept is for how many intervals an organization's events are told of
	// after the last reader: readers come back.
	tailKept = 10
)

// tails are the readers of this process that wait for events. None has a
// connection of its own: the scripts that append events tell of it on the
// channel that Watch follows, for as long as somebody waits, and one look at all
// organizations together stands behind that.
type tails struct {
	mu      sync.Mutex
	of      map[string]*tail // by the log's key
	tending bool
	closed  chan struct{}
}

// tail is those who wait for one organization's events.
type tail struct {
	space   rediskv.Space
	told    bool          // the scripts know
	waiting int           // readers
	idle    int           // intervals without one
	count   string        // events at the last look
	news    chan struct{} // closed when there may be something new
}

func newTails() *tails {
	return &tails{of: make(map[string]*tail), closed: make(chan struct{})}
}

// WaitEvents returns when the log may have something after a position, or ctx
// ends. It looks once behind the moment from which on it is told, so nothing
// that comes meanwhile is missed.
func (s *Store) WaitEvents(ctx context.Context, org string, after Position) error {
	k := s.db.Space(org)
	t, told, news := s.tails.join(s, k)
	defer s.tails.leave(t)
	there, count := false, ""
	if err := s.db.Timed(context.WithoutCancel(ctx), "wait_events", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline() // one connection: the look comes behind the mark
		if !told {
			pipe.HSet(ctx, k.Sequences(), "tell", rediskv.EventsChannel)
		}
		counted := pipe.HGet(ctx, k.Sequences(), "event")
		newer := pipe.XRangeN(ctx, k.Events(), after.after(), "+", 1) // the last one is always in the head
		_, _ = pipe.Exec(ctx)                                         // a Redis that is full takes no mark, and can be read
		there, count = len(newer.Val()) > 0, counted.Val()
		return newer.Err()
	}); err != nil || there {
		return err
	}
	s.tails.mark(t, count)
	select {
	case <-ctx.Done():
	case <-news:
	}
	return nil
}

// join counts a reader in. told says that the scripts have been told already.
func (w *tails) join(s *Store, k rediskv.Space) (t *tail, told bool, news <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t = w.of[k.Events()]
	if t == nil {
		t = &tail{space: k, news: make(chan struct{})}
		w.of[k.Events()] = t
	}
	t.waiting++
	t.idle = 0
	if !w.tending {
		w.tending = true
		go s.lookAgain()
	}
	return t, t.told, t.news
}

func (w *tails) leave(t *tail) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.waiting--
}

// mark notes that the scripts know of the readers, and how many events there
// were.
func (w *tails) mark(t *tail, count string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.told = true
	if t.count == "" {
		t.count = count
	}
}

// tell wakes the readers of a log.
func (w *tails) tell(log string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.of[log]; t != nil {
		t.wake()
	}
}

// tellAll wakes everybody: what was told meanwhile is not known.
func (w *tails) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.of {
		t.wake()
	}
}

// wake lets the readers look; the mutex is held.
func (t *tail) wake() {
	close(t.news)
	t.news = make(chan struct{})
}

func (w *tails) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closed:
	default:
		close(w.closed)
	}
}

// lookAgain looks once per interval what the push may have missed, for as long as
// anybody waits or has just waited.
func (s *Store) lookAgain() {
	tick := time.NewTicker(tailInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.tails.closed:
			return
		case <-tick.C:
		}
		looked, left, done := s.tails.due()
		if done {
			return
		}
		_ = s.db.Timed(context.Background(), "tend_events", func(ctx context.Context) error { return s.lookAt(ctx, looked, left) }) // the next look is soon
	}
}

// due is which logs to look at, and those that nobody has waited for in a while.
func (w *tails) due() (look, left []*tail, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for log, t := range w.of {
		switch {
		case t.waiting > 0:
			look = append(look, t)
		case t.idle < tailKept:
			t.idle++
		default:
			delete(w.of, log)
			left = append(left, t)
		}
	}
	w.tending = len(w.of) > 0 || len(left) > 0
	return look, left, !w.tending
}

// lookAt reads how many events there are, and tells the scripts again that
// somebody waits where that is gone: another process whose readers have left
// takes it back, and Redis may lose it.
func (s *Store) lookAt(ctx context.Context, look, left []*tail) error {
	pipe := s.db.Redis.Pipeline()
	for _, t := range left {
		pipe.HDel(ctx, t.space.Sequences(), "tell")
	}
	found := make([]*redis.SliceCmd, len(look))
	for i, t := range look {
		found[i] = pipe.HMGet(ctx, t.space.Sequences(), "event", "tell")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	again := s.db.Redis.Pipeline()
	for i, t := range look {
		if f := record.FieldsIn(found[i].Val(), "event", "tell"); found[i].Err() == nil && f["tell"] == "" {
			again.HSet(ctx, t.space.Sequences(), "tell", rediskv.EventsChannel)
		}
	}
	s.tails.counted(look, found)
	if again.Len() == 0 {
		return nil
	}
	_, err := again.Exec(ctx)
	return err
}

// counted wakes the readers of logs that have grown since the last look.
func (w *tails) counted(look []*tail, found []*redis.SliceCmd) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, t := range look {
		if found[i].Err() != nil {
			continue
		}
		if count := record.FieldsIn(found[i].Val(), "event", "tell")["event"]; count != t.count {
			t.count = count
			t.wake()
		}
	}
}

// Tell tells those who wait for events of a log, by its key, that it may have some.
func (s *Store) Tell(log string) { s.tails.tell(log) }

// TellAll tells those who wait for events of any log.
func (s *Store) TellAll() { s.tails.tellAll() }

// Close ends the looks of those who wait for events.
func (s *Store) Close() { s.tails.close() }
