package main

import (
	"container/heap"
	"sync"
	"time"
)

// step is one request: a payment, or what becomes of one later.
type step struct {
	at      time.Time
	path    string // of the API
	body    string
	payment string        // that the path is about; empty for a new one
	created time.Time     // the payment
	delay   time.Duration // since then
	sale    *sale         // of a new payment
	then    []step        // what is done after it, of the same payment
}

// schedule is what is still to be done, the earliest first.
type schedule struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting steps
	busy    int // requests under way, which may add to what is waiting
}

func newSchedule() *schedule {
	s := new(schedule)
	s.changed = sync.NewCond(&s.mu)
	return s
}

// begin and end enclose a request.
func (s *schedule) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
}

// end ends a request, after which others follow.
func (s *schedule) end(following []step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, next := range following {
		heap.Push(&s.waiting, next)
	}
	s.busy--
	s.changed.Broadcast()
}

// idle waits until no request is under way.
func (s *schedule) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy > 0 {
		s.changed.Wait()
	}
}

// take is the first step that is due, if there is one.
func (s *schedule) take(now time.Time) (step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first(now)
}

// rest is take, but waits for what is under way before it says that nothing is due.
func (s *schedule) rest(now time.Time) (step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if next, due := s.first(now); due || s.busy == 0 {
			return next, due
		}
		s.changed.Wait()
	}
}

func (s *schedule) first(now time.Time) (step, bool) {
	if len(s.waiting) == 0 || s.waiting[0].at.After(now) {
		return step{}, false
	}
	return heap.Pop(&s.waiting).(step), true
}

// steps is a heap.Interface.
type steps []step

func (s steps) Len() int           { return len(s) }
func (s steps) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s steps) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// Push is called by heap.Push.
func (s *steps) Push(x any) { *s = append(*s, x.(step)) }

// Pop is called by heap.Pop.
func (s *steps) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}
