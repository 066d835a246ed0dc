package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/service"
	"tollgate/rediskv"
	"tollgate/rediskv/health"
	"tollgate/rediskv/store"
)

// OpenStore connects to Redis, waits for it a while, and looks at what it
// guarantees.
func OpenStore(ctx context.Context, o rediskv.Options, patience time.Duration, inspect bool) (_ *store.Store, g health.Guarantees, err error) {
	store, err := service.Await(ctx, o, patience)
	if err != nil {
		return nil, g, cli.StartError(err)
	}
	if inspect {
		if g, err = service.Inspect(ctx, store, o.Log); err != nil {
			return nil, g, cli.StartError(errors.Join(err, store.Close()))
		}
	}
	return store, g, nil
}

// HTTPServer is a server with the time-outs of interface §8. A listing of
// events waits up to 20 s for its answer, so an answer may take 30.
func HTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10, // above the interface's own limit, which answers with a problem
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered as any other method
	}
}

// Endpoint is a server and where it listens.
type Endpoint struct {
	Listener net.Listener
	Server   *http.Server
}

// ServeUntil runs servers until ctx ends or one of them fails, then stops
// them in order, each letting its requests finish within grace.
func ServeUntil(ctx context.Context, grace time.Duration, drain func(), endpoints ...Endpoint) error {
	failed := make(chan error, len(endpoints))
	for _, e := range endpoints {
		go func() {
			if err := e.Server.Serve(e.Listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
		drain()
	case err = <-failed:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for _, e := range endpoints {
		if e := e.Server.Shutdown(stop); e != nil {
			err = errors.Join(err, fmt.Errorf("shutdown: requests did not finish within %s: %w", grace, e))
		}
	}
	return err
}

// Listen binds a TCP address.
func Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	return l, nil
}
