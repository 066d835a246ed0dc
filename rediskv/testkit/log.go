package testkit

import (
	"strings"
	"sync"
)

// Log is what is written to a log, which a test reads while it is written.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Has says whether text has been written.
func (l *Log) Has(text string) bool { return strings.Contains(l.String(), text) }
