package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/demo"
	"tollgate/cmd/tollgate/server"
	"tollgate/cmd/tollgate/webhooks"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
)

// receiverPath tells the sandbox's own receiver from an address that somebody
// has given the demonstration's endpoint.
const receiverPath = "/tollgate-dev-receiver"

// demoReceiver is the sandbox's own receiver of webhooks: it verifies each
// delivery as any receiver does, and logs it.
type demoReceiver struct {
	*cli.App
	store    *store.Store
	vault    *tollgate.Vault
	log      *slog.Logger
	listener net.Listener
	server   *http.Server
}

// startReceiver listens on a port of this machine and makes the
// demonstration's endpoint lead there.
func startReceiver(ctx context.Context, a *cli.App, store *store.Store, vault *tollgate.Vault, log *slog.Logger) (*demoReceiver, error) {
	listener, err := server.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &demoReceiver{App: a, store: store, vault: vault, log: log, listener: listener}
	if err := r.provision(ctx, "http://"+listener.Addr().String()+receiverPath); err != nil {
		listener.Close()
		return nil, fmt.Errorf("sandbox webhook: %w", err)
	}
	r.server = server.HTTPServer(r, log)
	go func() { _ = r.server.Serve(listener) }() // until close
	return r, nil
}

func (r *demoReceiver) close() { _ = r.server.Close() }

// provision makes the endpoint where there is none, and on a Redis that was
// kept moves it to the port of this time. An address that somebody has given it
// is left as it is.
func (r *demoReceiver) provision(ctx context.Context, url string) error {
	caller := rediskv.Caller{Organization: demo.Organization}
	for {
		w, err := r.store.Webhook(ctx, caller, demo.Webhook)
		var refused *tollgate.Error
		switch {
		case errors.As(err, &refused) && refused.Code == tollgate.CodeNotFound:
			err = r.create(ctx, caller, url)
		case err != nil || !strings.HasSuffix(w.URL, receiverPath) || w.URL == url:
			return err
		default:
			err = r.move(ctx, caller, *w, url)
		}
		if !errors.Is(err, rediskv.ErrConflict) { // with another sandbox on the same Redis
			return err
		}
	}
}

func (r *demoReceiver) create(ctx context.Context, caller rediskv.Caller, url string) error {
	there, err := r.store.WebhookList(ctx, caller.Organization)
	if err != nil {
		return err
	}
	o, description := r.store.Origin(caller), "The receiver of tollgate dev"
	w := tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{
		Object: "webhook_endpoint", ID: demo.Webhook, CreatedAt: o.At, UpdatedAt: o.At, URL: url, Description: &description,
		Status: tollgate.WebhookActive, SignatureScheme: tollgate.SignatureV1, SchemaVersion: tollgate.SchemaVersion,
	}}
	if _, err := r.webhookKeys().Make(&w, o.At); err != nil {
		return err
	}
	change, err := tollgate.CreateWebhook(r.store.NewID, o, there, w)
	if err != nil {
		return err
	}
	_, err = r.store.CommitWebhook(ctx, caller, nil, change, rediskv.Answer{})
	return err
}

func (r *demoReceiver) move(ctx context.Context, caller rediskv.Caller, w tollgate.StoredWebhook, url string) error {
	want := w.WebhookEndpoint
	want.URL = url
	change, err := tollgate.ChangeWebhook(r.store.NewID, r.store.Origin(caller), r.webhookKeys(), w, want)
	if err != nil {
		return err
	}
	_, err = r.store.CommitWebhook(ctx, caller, nil, change, rediskv.Answer{})
	return err
}

func (r *demoReceiver) webhookKeys() tollgate.WebhookKeys {
	return tollgate.WebhookKeys{Vault: r.vault, Entropy: r.Entropy}
}

// keys are the texts of the endpoint's keys that sign now, at least one, the
// newest last.
func (r *demoReceiver) keys(ctx context.Context) ([]string, error) {
	w, err := r.store.Webhook(ctx, rediskv.Caller{Organization: demo.Organization}, demo.Webhook)
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, k := range w.SigningKeys {
		live[tollgate.SigningKeyPlace(w.ID, k.Version, k.Scheme)] = k.Live(r.store.Now())
	}
	var texts []string
	for _, k := range w.Sealed {
		place := tollgate.SigningKeyPlace(w.ID, k.Version, k.Scheme)
		if !live[place] {
			continue
		}
		secret, err := r.vault.Open(place, k.Secret)
		if err != nil {
			return nil, err
		}
		texts = append(texts, tollgate.WebhookKey{Version: k.Version, Scheme: k.Scheme, Secret: secret}.Text())
	}
	if len(texts) == 0 {
		return nil, errors.New("the endpoint has no key that signs")
	}
	return texts, nil
}

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
	keys, err := r.keys(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err = m.Verify(key, 5*time.Minute, r.Clock()); err == nil {
			return nil
		}
	}
	return err
}
