package gcra

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Limiter keeps the buckets of a process: a bounded number of them. The one that was
// used longest ago makes room for a new one, and is full when it comes back. Many
// goroutines use it.
type Limiter struct {
	mutex    sync.Mutex
	arrivals *simplelru.LRU[string, int64] // microseconds, by bucket
}

// NewLimiter makes one of at most so many buckets; more than 0.
func NewLimiter(buckets int) *Limiter {
	arrivals, err := simplelru.NewLRU[string, int64](buckets, nil)
	if err != nil {
		panic(err) // a size below 1
	}
	return &Limiter{arrivals: arrivals}
}

// Take counts one request in a bucket.
func (l *Limiter) Take(bucket string, limit Limit, now time.Time) State {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	arrival, _ := l.arrivals.Get(bucket)
	next, s := limit.take(arrival, now.UnixMicro())
	l.arrivals.Add(bucket, next)
	return s
}

// Look is Take of a request that is not counted.
func (l *Limiter) Look(bucket string, limit Limit, now time.Time) State {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	arrival, _ := l.arrivals.Get(bucket)
	_, s := limit.take(arrival, now.UnixMicro())
	return s
}

// Empty has a bucket refuse everything for a while: another one that it stands for has
// said so.
func (l *Limiter) Empty(bucket string, limit Limit, now time.Time, retry time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.arrivals.Add(bucket, now.UnixMicro()+limit.span()-limit.interval()+retry.Microseconds())
}
