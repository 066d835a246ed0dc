package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// report prints how far the payments are, until done.
func report(m *market, url string) (done func(), err error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	client := redis.NewClient(options)
	start, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	line := func() {
		made, took := m.made.Load(), time.Since(start)
		fmt.Fprintf(os.Stderr, "%9d of %d payments  %6.0f/s  %s in Redis  %s\n",
			made, m.payments, float64(made)/took.Seconds(), size(used(client)), took.Round(time.Second))
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
		_ = client.Close()
	}, nil
}

// used is how many bytes Redis has taken; 0 where it does not say.
func used(client *redis.Client) int64 {
	info, err := client.Info(context.Background(), "memory").Result()
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
