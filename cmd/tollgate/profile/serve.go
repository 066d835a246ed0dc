// Package profile shows what a running process does: serve and work write their profiles
// into one file, on a listener of their own that only this machine reaches, and
// `tollgate debug profile` fetches it.
//
// Nothing of net/http/pprof is linked: it would register its pages on a mux that others
// may serve, and its templates would have the linker keep every exported method.
package profile

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"tollgate/cmd/tollgate/cli"
)

// Setting is the flag that says where.
const Setting = "pprof-addr"

// How long a profile may take, in seconds.
const (
	defaultSeconds = 10
	maxSeconds     = 300
)

const path = "/debug/profile"

// CheckAddr refuses an address that others than this machine reach: a profile shows
// what is in memory.
func CheckAddr(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not an address such as 127.0.0.1:6060", addr)
	}
	if !loopback(host) {
		return fmt.Errorf("%q may be reached from other machines: use an address of this one alone, such as 127.0.0.1:6060", addr)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Serve answers on an address until closed; on none where it is empty.
func Serve(addr string, log *slog.Logger) (closed func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	if err := CheckAddr(addr); err != nil {
		return nil, cli.UsageError(err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	server := &http.Server{
		Handler: Handler(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: (maxSeconds + 60) * time.Second,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	log.Info("profiles", "pprof_addr", l.Addr().String())
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("profiles are not answered any more", "error", err)
		}
	}()
	return func() { _ = server.Close() }, nil
}

// Handler answers POST /debug/profile?seconds=10 with a zip of profiles: 400 for other
// seconds than 1 to 300, 403 for a page of a browser, 409 while another one is made.
func Handler() http.Handler {
	var running sync.Mutex
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		// A name that leads here is a page's trick.
		if host, _, err := net.SplitHostPort(r.Host); err != nil || !loopback(host) || r.Header.Get("Origin") != "" {
			http.Error(w, "profiles are for programs on this machine", http.StatusForbidden)
			return
		}
		seconds, err := strconv.Atoi(r.URL.Query().Get("seconds"))
		if err != nil || seconds < 1 || seconds > maxSeconds {
			http.Error(w, fmt.Sprintf("seconds must be between 1 and %d", maxSeconds), http.StatusBadRequest)
			return
		}
		if !running.TryLock() {
			http.Error(w, "another profile is being made: try again when it has ended", http.StatusConflict)
			return
		}
		defer running.Unlock()
		w.Header().Set("Content-Type", "application/zip")
		if err := write(r.Context(), w, time.Duration(seconds)*time.Second); err != nil {
			panic(http.ErrAbortHandler) // so that nobody takes half of it for all
		}
	})
	return mux
}
