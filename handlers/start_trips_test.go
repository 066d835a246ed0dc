package handlers_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/handlers/service"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// connecting is how many round trips the first connection takes: TCP, HELLO, and one
// question for all that is to be known of the server.
const connecting = 3

// An instance is ready soon after it is connected: it has registered, and has read the
// configuration and the rules in force of every organization. A Redis that no process
// of this build has used before gets the scripts, a seal and the first signing key.
// All connections that this takes are made at once: one that is missing takes four round
// trips more, of which whoever has to be ready may wait for each.
func TestRoundTripsOfAStart(t *testing.T) {
	w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	for _, c := range []struct {
		name, redis string
		prepare     func()
		after       int // round trips after connecting
	}{
		{"an empty Redis", redistest.Single(t).URL, func() {}, 4},
		{"the first of a site", w.redis, func() {}, 5},
		{"accounts", w.redis, func() {}, 3},
		{"published rules", w.redis, func() { w.force("rule:shop_fee@v1", "1.5") }, 4},
	} {
		c.prepare()
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				if since := time.Since(begun); since > 0 {
					t.Errorf("%s: a connection is missing after %s", c.name, since)
				}
				c, err := redistest.Far(trip).Dial(ctx, network, address)
				return narrow{c}, err
			}
			store, err := service.Connect(t.Context(), rediskv.Options{URL: c.redis, Clock: w.service, Entropy: rand.Reader, Timeout: redistest.Patience, Dial: dial})
			must(t, store, err)
			defer store.Close()
			g, err := service.Inspect(t.Context(), store, slog.New(slog.DiscardHandler))
			must(t, g, err)
			s, err := service.New(t.Context(), store, service.Options{
				Issuer: issuer, SecretKeys: [][]byte{bytes.Repeat([]byte{7}, 32)}, Entropy: rand.Reader, Clock: w.service,
			})
			must(t, s, err)
			defer s.Close(t.Context())
			ctx, stop := context.WithCancel(t.Context())
			followed := make(chan struct{})
			go func() { s.Server.Follow(ctx); close(followed) }()
			defer func() { stop(); <-followed }()
			// Between two round trips: what is ready was so after the last.
			for time.Sleep(trip / 2); ; time.Sleep(trip) {
				asked, answer := time.Since(begun), httptest.NewRecorder()
				s.Server.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
				if answer.Code == http.StatusOK {
					n := int(asked/trip) - connecting
					if n != c.after {
						t.Errorf("%s: ready %d round trips after connecting, want %d", c.name, n, c.after)
					}
					return
				}
			}
		})
	}
}

// narrow gives a reply over a nanosecond later for each byte. Of replies that arrive at
// once, the short ones are then read first, on every machine: the others' connections
// are still in use when it is asked again.
type narrow struct{ net.Conn }

func (c narrow) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(time.Duration(n))
	return n, err
}
