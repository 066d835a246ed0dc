package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/server"
	"tollgate/cmd/tollgate/webhooks"
	"tollgate/handlers/secret"
	"tollgate/rediskv/store"
)

// receiverPath tells the sandbox's own receiver from an address that somebody
// has given the demonstration's endpoint.
const receiverPath = "/tollgate-dev-receiver"

// demoReceiver is the sandbox's own receiver of webhooks: it verifies each
// delivery as any receiver does, and logs it.
type demoReceiver struct {
	sandbox.Endpoint
	clock    func() time.Time
	log      *slog.Logger
	listener net.Listener
	server   *http.Server
}

// startReceiver listens on a port of this machine and makes the
// demonstration's endpoint lead there.
func startReceiver(ctx context.Context, a *cli.App, store *store.Store, vault *secret.Vault, log *slog.Logger) (*demoReceiver, error) {
	listener, err := server.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &demoReceiver{Endpoint: sandbox.Endpoint{Store: store, Vault: vault, Entropy: a.Entropy}, clock: a.Clock, log: log, listener: listener}
	if err := r.Lead(ctx, "http://"+listener.Addr().String()+receiverPath, "The receiver of tollgate dev", ours); err != nil {
		listener.Close()
		return nil, fmt.Errorf("sandbox webhook: %w", err)
	}
	r.server = server.HTTPServer(r, log)
	go func() { _ = r.server.Serve(listener) }() // until close
	return r, nil
}

func ours(url string) bool { return strings.HasSuffix(url, receiverPath) }

func (r *demoReceiver) close() { _ = r.server.Close() }

// ServeHTTP takes a delivery, or refuses one that is not signed by the endpoint.
func (r *demoReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	m := webhooks.Message{
		ID: req.Header.Get("Webhook-Id"), Timestamp: req.Header.Get("Webhook-Timestamp"),
		Signature: req.Header.Get("Webhook-Signature"), Body: body,
	}
	var event struct {
		Type string `json:"type"`
	}
	if err == nil {
		err = r.check(req.Context(), m)
	}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	if err != nil {
		r.log.Warn(fmt.Sprintf("refused a delivery %d", http.StatusBadRequest), "error", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.log.Info(fmt.Sprintf("delivered %s %s %d", event.Type, m.ID, http.StatusOK))
}

// check is nil when one of the endpoint's keys has signed.
func (r *demoReceiver) check(ctx context.Context, m webhooks.Message) error {
	keys, err := r.Keys(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err = m.Verify(key, 5*time.Minute, r.clock()); err == nil {
			return nil
		}
	}
	return err
}
