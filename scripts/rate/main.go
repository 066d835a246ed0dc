// Command rate creates payments at a fixed rate with fortio's runner and prints
// its histogram. It is a module of its own, so that the service does not depend
// on a load tool; scripts/rate.sh runs it.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"fortio.org/fortio/periodic"
	"fortio.org/log"
)

func main() {
	rate := flag.Float64("rate", 100, "payments a second")
	duration := flag.Duration("duration", 10*time.Second, "how long, at most 9m")
	flag.Parse()
	if err := run(*rate, *duration, os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "rate:", err)
		os.Exit(1)
	}
}

func run(rate float64, duration time.Duration, env func(string) string) error {
	if rate <= 0 || rate > 100_000 || duration <= 0 || duration > 9*time.Minute {
		return errors.New("the rate must be in (0, 100000], the duration in (0, 9m]")
	}
	base, err := loopback(env("TOLLGATE_URL"))
	if err != nil {
		return err
	}
	token, account := env("TOLLGATE_TOKEN"), env("TOLLGATE_MERCHANT_ACCOUNT")
	if token == "" || account == "" {
		return errors.New("set TOLLGATE_TOKEN and TOLLGATE_MERCHANT_ACCOUNT")
	}
	body, err := json.Marshal(map[string]string{
		"merchant_account_id": account,
		"amount":              "100.00",
		"currency":            "EUR",
		"payee":               "shop.example",
	})
	if err != nil {
		return err
	}

	log.SetLogLevelQuiet(log.Error) // fortio reports on every connection

	// A connection is busy for the length of one answer only. One for every
	// five payments a second keeps the rate up to answers of 200 ms.
	connections := min(max(int(rate/5), 8), 512)
	payments := &payments{
		url:      base.JoinPath("/v1/payments").String(),
		token:    token,
		body:     body,
		statuses: make(map[string]int),
		client: &http.Client{
			Timeout:   15 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: connections},
		},
	}
	options := periodic.RunnerOptions{
		RunType:     "payments",
		QPS:         rate,
		Duration:    duration,
		NumThreads:  connections,
		Uniform:     true, // connections take turns, not all at once
		Percentiles: []float64{50, 90, 95, 99, 99.9},
		Resolution:  0.0001, // seconds
		Out:         io.Discard,
	}
	runner := periodic.NewPeriodicRunner(&options)
	runner.Options().Runners = make([]periodic.Runnable, connections)
	for i := range runner.Options().Runners {
		runner.Options().Runners[i] = payments
	}
	return report(runner.Run(), payments, rate)
}

func report(result periodic.RunnerResults, p *payments, rate float64) error {
	histogram := result.DurationHistogram
	// The connections start one after the other, over as long as each then
	// waits between two payments; they end likewise.
	stagger := float64(result.NumThreads) / rate
	reached := float64(histogram.Count) / (result.ActualDuration.Seconds() - stagger)
	fmt.Printf("payments  %d in %s, %.1f/s (asked for %.1f/s)\n",
		histogram.Count, result.ActualDuration.Round(time.Millisecond), reached, rate)
	for _, status := range slices.Sorted(maps.Keys(p.statuses)) {
		fmt.Printf("%-9s %d\n", status, p.statuses[status])
	}
	line := func(name string, seconds float64) { fmt.Printf("%-9s %.2f ms\n", name, seconds*1000) }
	line("min", histogram.Min)
	line("mean", histogram.Avg)
	for _, percentile := range histogram.Percentiles {
		line(fmt.Sprintf("p%v", percentile.Percentile), percentile.Value)
	}
	line("max", histogram.Max)
	if other := int(histogram.Count) - p.statuses["201"]; other > 0 {
		return fmt.Errorf("%d payments were not answered with 201; the last: %s", other, p.last)
	}
	if reached < 0.95*rate {
		return errors.New("the rate was not reached: the percentiles are those of a lower one")
	}
	return nil
}

// payments creates one payment at a time and counts the answers by status.
type payments struct {
	client     *http.Client
	url, token string
	body       []byte

	mu       sync.Mutex
	statuses map[string]int
	last     string // what the last refused one was told
}

// Run implements periodic.Runnable.
func (p *payments) Run(ctx context.Context, _ periodic.ThreadID) (bool, string) {
	status, answer := p.create(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses[status]++
	if status == "201" {
		return true, ""
	}
	p.last = answer
	return false, status
}

func (p *payments) create(ctx context.Context) (status, answer string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil {
		return "error", err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", rand.Text())
	response, err := p.client.Do(request)
	if err != nil {
		return "error", err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "error", err.Error()
	}
	return fmt.Sprint(response.StatusCode), string(text)
}

// loopback refuses addresses of other machines: a typing error must not make
// payments on someone's service.
func loopback(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("TOLLGATE_URL=%q is no URL", address)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s is not on this machine; payments are made on loopback only", u.Host)
	}
	return u, nil
}
