package handlers_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// observed counts what a server says that it has answered, by route and status.
type observed struct {
	mu    sync.Mutex
	count map[string]int
}

func observe() *observed { return &observed{count: map[string]int{}} }

func (o *observed) Request(route string, status int, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count[fmt.Sprint(route, " ", status)]++
}

func (o *observed) Read(servedBy string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count["read by "+servedBy]++
}

func (*observed) RedisMemory(float64) {}

func (o *observed) of(request string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count[request]
}

func (o *observed) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.count))
}
