package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers"
	"tollgate/handlers/service"
	"tollgate/rediskv/snapshot"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// asLongAsItTakes is how long a process waits for Redis that quotes meanwhile.
const asLongAsItTakes = 100 * 365 * 24 * time.Hour

// openStore connects to Redis. Where it is away and there is a snapshot, the process
// quotes until it is back. The store is nil if it is to end instead.
func (o *processOptions) openStore(ctx context.Context, a *cli.App, doors *doors) (*store.Store, *snapshot.Snapshot, error) {
	if o.snapshotDir == "" {
		store, _, err := OpenStore(ctx, o.redis, o.redisWait, true)
		return store, nil, err
	}
	kept, err := snapshot.Open(o.snapshotDir, a.Clock, o.log)
	if err != nil {
		return nil, nil, cli.UsageError(err)
	}
	builtin, err := wasm.BuiltinRefs()
	if err != nil {
		return nil, nil, err
	}
	offline := o.redis
	offline.Rules = builtin
	known, err := kept.Store(offline)
	if err != nil {
		return nil, nil, err
	}
	if known == nil || len(o.signingKeys) == 0 && known.KeptKeyring() == "" { // nothing to verify tokens with
		store, _, err := OpenStore(ctx, o.redis, o.redisWait, true)
		return store, kept, err
	}
	defer known.Close()
	store, _, err := OpenStore(ctx, o.redis, 0, true)
	if e, ok := errors.AsType[*tollgate.Error](err); ok && e.Code == tollgate.CodeStoreUnavailable {
		store, err = o.quote(ctx, a, known, kept, doors)
	}
	return store, kept, err
}

// quote serves what a snapshot knows until Redis is back, or ctx ends.
func (o *processOptions) quote(ctx context.Context, a *cli.App, known *store.Store, kept *snapshot.Snapshot, doors *doors) (*store.Store, error) {
	s, err := service.New(ctx, known, o.service(a))
	if err != nil {
		return nil, cli.StartError(err)
	}
	defer s.Close(ctx)
	if err := OpenBeside(s.Server, Beside{Issuer: o.issuer, Log: o.log}); err != nil {
		return nil, err
	}
	s.Server.Prepare(ctx, kept.Accounts())
	endpoints, err := doors.open(s.Server, false)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		store *store.Store
		err   error
	}
	opened := make(chan outcome, 1)
	away, back := context.WithCancel(ctx)
	go func() {
		store, _, err := OpenStore(ctx, o.redis, asLongAsItTakes, true)
		opened <- outcome{store, err}
		back()
	}()
	o.log.Warn("quoting without redis", append(doors.names(), "snapshot", o.snapshotDir)...)
	err = ServeUntil(away, o.grace, s.Server.Drain, endpoints...)
	back()
	is := <-opened
	switch {
	case ctx.Err() != nil:
		o.log.Info("stopped")
		if is.store != nil {
			err = errors.Join(err, is.store.Close())
		}
		return nil, err
	case is.store != nil && err != nil: // a client that takes its time keeps nobody else waiting
		o.log.Warn("requests were cut off", "error", err)
		return is.store, nil
	default:
		return is.store, cmp.Or(err, is.err)
	}
}

// doors are the addresses of a process, open for one server after the other: who
// connects meanwhile waits.
type doors struct {
	o            *processOptions
	api, metrics *door  // nil: not open yet, or never
	stop         func() // looking at the certificate
}

func newDoors(o *processOptions) *doors {
	following, stop := context.WithCancel(context.Background())
	if o.certificate != nil {
		go o.certificate.follow(following)
	}
	return &doors{o: o, stop: stop}
}

// open has a server answer, and shows the metrics. The last one closes the doors when
// it ends.
func (d *doors) open(s *handlers.Server, last bool) ([]Endpoint, error) {
	var err error
	if d.api == nil {
		if d.api, err = newDoor(d.o.addr); err != nil {
			return nil, err
		}
	}
	if d.metrics == nil && d.o.metricsAddr != "off" {
		if d.metrics, err = newDoor(d.o.metricsAddr); err != nil {
			return nil, err
		}
	}
	var endpoints []Endpoint
	for _, one := range []struct {
		door    *door
		listen  func(net.Listener) net.Listener
		handler http.Handler
	}{
		{d.api, s.Listen, s.Handler()},
		{d.metrics, func(l net.Listener) net.Listener { return l }, d.o.metrics.Handler()},
	} {
		if one.door == nil {
			continue
		}
		var l net.Listener = one.door
		if last {
			l = one.door.TCPListener
		}
		server := HTTPServer(one.handler, d.o.log)
		if c := d.o.certificate; c != nil && one.door == d.api {
			l, server.Protocols = c.listen(l)
		}
		endpoints = append(endpoints, Endpoint{one.listen(l), server})
		err = errors.Join(err, one.door.SetDeadline(time.Time{}))
	}
	return endpoints, err
}

// names are the addresses for the log.
func (d *doors) names() []any {
	metrics := "off"
	if d.metrics != nil {
		metrics = d.metrics.Addr().String()
	}
	return []any{"addr", d.api.Addr().String(), "metrics_addr", metrics, "tls", d.o.certificate != nil}
}

func (d *doors) close() {
	d.stop()
	for _, one := range []*door{d.api, d.metrics} {
		if one != nil {
			_ = one.TCPListener.Close() // it has served
		}
	}
}

// door is a listener that a server leaves open when it ends.
type door struct{ *net.TCPListener }

func newDoor(addr string) (*door, error) {
	l, err := Listen(addr)
	if err != nil {
		return nil, err
	}
	return &door{l.(*net.TCPListener)}, nil
}

// Close ends Accept.
func (d *door) Close() error { return d.SetDeadline(time.Unix(1, 0)) }
