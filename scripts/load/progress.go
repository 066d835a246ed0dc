package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// report prints how far the payments are, until done.
func report(m *market) (done func()) {
	start, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	line := func() {
		made, took := m.made.Load(), time.Since(start)
		fmt.Fprintf(os.Stderr, "%9d of %d payments  %6.0f/s  %s in Redis  %s\n",
			made, m.payments, float64(made)/took.Seconds(), size(m.used()), took.Round(time.Second))
	}
	go func() {
		defer close(stopped)
		every := time.NewTicker(5 * time.Second)
		defer every.Stop()
		for {
			select {
			case <-stop:
				line()
				return
			case <-every.C:
				line()
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// used is how many bytes Redis has taken; 0 where it does not say.
func (m *market) used() int64 {
	info, err := m.redis.Info(context.Background(), "memory").Result()
	if err != nil {
		return 0
	}
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, "used_memory:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return n
		}
	}
	return 0
}

func size(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
