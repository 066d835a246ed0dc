package simulate

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
)

// judge knows what was promised, and says what is wrong.
type judge struct {
	mu     sync.Mutex
	faults []string
	wants  []*outcome
	tailed []string // ids of events, as the one who follows the log got them
}

// outcome is what became of a want, as its client knows it.
type outcome struct {
	Want
	asked bool // it was sent at least once
	known bool
	answer
	id string // of what was made
}

func newJudge() *judge { return new(judge) }

func (j *judge) wrong(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.faults) < 20 {
		j.faults = append(j.faults, fmt.Sprintf(format, args...))
	}
}

// delivered is told of every delivery that reached its receiver.
func (j *judge) delivered(x *world, to *receiver, event string, body []byte, _ http.Header) {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.said[event]++
	if before, ok := to.seen[event]; ok && !bytes.Equal(before, body) {
		j.wrong("%s got event %s twice, with other bytes: %s and %s", to.name, event, before, body)
	}
	to.seen[event] = body
}
