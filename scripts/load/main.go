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

	"tollgate"
	"tollgate/rediskv"
)

// options are what a run is told.
type options struct {
	payments int
	span     time.Duration // over which they are created; it ends now. 0: all are made now
	redis    string        // URL; empty: a server of our own
	dir      string        // of that server
	port     int           // of that server
	shim     string        // the library that moves its clock
	clients  int           // requests at the same time
	seed     uint64

	// What is not asked of everybody: see years.
	ahead      time.Duration                                        // see ahead
	shops      []shop                                               // empty: those of the marketplace
	config     tollgate.Config                                      // of these shops
	archiveDir string                                               // a directory; empty: there is none
	passed     func(ctx context.Context, since time.Duration) error // before each payment: how far the clock is; nil: nobody is told
	created    func(payment string)                                 // nil: nobody is told
}

func main() {
	o := options{redis: os.Getenv("REDIS_URL")}
	days := flag.Int("days", 30, "the payments are created over so many days, which end now; 0, and always with REDIS_URL: now")
	flag.IntVar(&o.payments, "payments", 1_000_000, "how many")
	flag.StringVar(&o.dir, "dir", ".tollgate/load", "where a redis-server of its own keeps dump.rdb; unused with REDIS_URL")
	flag.IntVar(&o.port, "port", 6395, "of that redis-server")
	flag.StringVar(&o.shim, "shim", "bin/clock.so", "the library that moves the clock of that redis-server; make load builds it")
	flag.IntVar(&o.clients, "clients", 64, "requests at the same time")
	flag.Uint64Var(&o.seed, "seed", 1, "the same seed makes the same payments")
	few := flag.String("few", "", "with -many: the URL of a Redis with few payments. Nothing is filled; each kind of request is sent to both in turn")
	many := flag.String("many", "", "the URL of a Redis with many")
	rounds := flag.Int("rounds", 500, "requests of each kind to each of them; fewer, if they take more than half a minute")
	bytes := flag.Bool("bytes", false, "prints what captured payments with one delivery each take up in a redis-server of its own, and keeps nothing")
	overYears := flag.Int("years", 0, "plays a shop over so many years, with an archive, and proves that all of it is there at the end; nothing is kept")
	flag.Parse()
	o.span = time.Duration(*days) * 24 * time.Hour
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	debug.SetGCPercent(400) // as serve does
	begin := func() error { return run(ctx, o) }
	if *bytes {
		begin = func() error { return weigh(ctx, os.Stdout, o) }
	}
	if *overYears > 0 {
		o.span = time.Duration(*overYears) * year
		begin = func() error { return playYears(ctx, os.Stdout, o) }
	}
	if *few != "" || *many != "" {
		begin = func() error { return compare(ctx, os.Stdout, *few, *many, *rounds, o) }
	}
	if err := begin(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func (o options) check() error {
	if o.payments < 1 || o.payments > 100_000_000 || o.span < 0 || o.span > 10*year || o.clients < 1 {
		return errors.New("-payments must be between 1 and 100000000, -days between 0 and 3650, -clients at least 1")
	}
	return nil
}

func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.redis != "" {
		if err := loopback(o.redis); err != nil {
			return err
		}
		o.span = 0 // whose clock stays as it is
		return fill(ctx, rediskv.Options{URL: o.redis}, o, nil)
	}
	if o.span == 0 {
		o.shim = ""
	}
	server, err := startRedis(ctx, o.dir, o.port, o.shim)
	if err != nil {
		return err
	}
	defer server.kill()
	moved := server.move
	if o.span == 0 {
		moved = nil
	}
	if err := fill(ctx, rediskv.Options{URL: server.url(), Partitions: 1}, o, moved); err != nil {
		return err
	}
	return server.save(ctx)
}

// fill makes the payments and tells of its progress. moved moves Redis' clock.
func fill(ctx context.Context, redis rediskv.Options, o options, moved func(time.Duration) error) error {
	m, err := open(ctx, redis, o, moved)
	if err != nil {
		return err
	}
	defer m.close()
	done, err := report(m, redis.URL)
	if err != nil {
		return err
	}
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
