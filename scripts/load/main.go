// Command load fills a Redis with the payments of a marketplace, as the service would
// have written them over months: its own handlers make them, and its worker expires them
// and makes payouts, on a clock that runs ahead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// options are what a run is told.
type options struct {
	payments int
	span     time.Duration // over which they are created; it ends now
	redis    string        // URL; empty: a server of our own
	dir      string        // of that server
	port     int           // of that server
	clients  int           // requests at the same time
	seed     uint64
}

func main() {
	o := options{redis: os.Getenv("REDIS_URL")}
	days := flag.Int("days", 90, "the payments are created over so many days, which end now")
	flag.IntVar(&o.payments, "payments", 1_000_000, "how many")
	flag.StringVar(&o.dir, "dir", ".tollgate/load", "where a redis-server of its own keeps dump.rdb; unused with REDIS_URL")
	flag.IntVar(&o.port, "port", 6395, "of that redis-server")
	flag.IntVar(&o.clients, "clients", 64, "requests at the same time")
	flag.Uint64Var(&o.seed, "seed", 1, "the same seed makes the same payments")
	flag.Parse()
	o.span = time.Duration(*days) * 24 * time.Hour
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	debug.SetGCPercent(400) // as serve does
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.payments < 1 || o.payments > 100_000_000 || o.span < 24*time.Hour || o.span > 365*24*time.Hour || o.clients < 1 {
		return errors.New("-payments must be between 1 and 100000000, -days between 1 and 365, -clients at least 1")
	}
	if o.redis == "" {
		server, err := startRedis(ctx, o.dir, o.port)
		if err != nil {
			return err
		}
		defer server.kill()
		if err := fill(ctx, server.url(), o); err != nil {
			return err
		}
		return server.save(ctx)
	}
	if err := loopback(o.redis); err != nil {
		return err
	}
	return fill(ctx, o.redis, o)
}

// fill makes the payments and tells of its progress.
func fill(ctx context.Context, url string, o options) error {
	m, err := open(ctx, url, o)
	if err != nil {
		return err
	}
	defer m.close()
	done := report(m)
	defer done()
	return m.fill(ctx)
}

// loopback refuses addresses of other machines: a typing error must not make
// payments in someone's Redis.
func loopback(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("REDIS_URL=%q is no URL", address)
	}
	if u.Scheme == "unix" || u.Hostname() == "localhost" {
		return nil
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("REDIS_URL: %q is not on this machine; payments are made on loopback only", u.Host)
	}
	return nil
}
