package worker_test

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"tollgate/handlers/worker"
)

// observed keeps what a worker says that it does.
type observed struct {
	worker.Unobserved
	mu     sync.Mutex
	values map[string]float64
}

func observe() *observed { return &observed{values: map[string]float64{}} }

// of is the value of one, and all the sum of those that begin alike.
func (o *observed) of(name string) float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.values[name]
}

func (o *observed) all(begin string) (sum float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, value := range o.values {
		if strings.HasPrefix(name, begin+" ") {
			sum += value
		}
	}
	return sum
}

func (o *observed) add(name string, n float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.values[name] += n
}

func (o *observed) Round(work string, _ time.Duration, failed bool) {
	o.add("rounds "+work, 1)
	if failed {
		o.add("failed "+work, 1)
	}
}

func (o *observed) Skipped(work string)                       { o.add("skipped "+work, 1) }
func (o *observed) Attempting(change int)                     { o.add("attempting", float64(change)) }
func (o *observed) Attempted(outcome string, _ time.Duration) { o.add("attempted "+outcome, 1) }
func (o *observed) EndpointDisabled(reason string)            { o.add("disabled "+reason, 1) }

func (o *observed) Queue(partition, waiting int, oldest time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.values["waiting "+strconv.Itoa(partition)], o.values["oldest "+strconv.Itoa(partition)] = float64(waiting), oldest.Seconds()
}
