package main

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
	"tollgate/rediskv"
)

// receiverPath tells the sandbox's own receiver from an address that somebody
// has given the demonstration's endpoint.
const receiverPath = "/tollgate-dev-receiver"

// demoReceiver is the sandbox's own receiver of webhooks: it verifies each
// delivery as any receiver does, and logs it.
type demoReceiver struct {
	*app
	store    *rediskv.Store
	vault    *tollgate.Vault
	log      *slog.Logger
	listener net.Listener
	server   *http.Server
}

// startReceiver listens on a port of this machine and makes the
// demonstration's endpoint lead there.
func (a *app) startReceiver(ctx context.Context, store *rediskv.Store, vault *tollgate.Vault, log *slog.Logger) (*demoReceiver, error) {
	listener, err := listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &demoReceiver{app: a, store: store, vault: vault, log: log, listener: listener}
	if err := r.provision(ctx, "http://"+listener.Addr().String()+receiverPath); err != nil {
		listener.Close()
		return nil, fmt.Errorf("sandbox webhook: %w", err)
	}
	r.server = httpServer(r, log)
	go func() { _ = r.server.Serve(listener) }() // until close
	return r, nil
}

func (r *demoReceiver) close() { _ = r.server.Close() }

// provision makes the endpoint where there is none, and on a Redis that was
// kept moves it to the port of this time. An address that somebody has given it
// is left as it is.
func (r *demoReceiver) provision(ctx context.Context, url string) error {
	caller := rediskv.Caller{Organization: demoOrganization}
	for {
		w, err := r.store.Webhook(ctx, caller, demoWebhook)
		var refused *tollgate.Error
		switch {
		case errors.As(err, &refused) && refused.Code == tollgate.CodeNotFound:
			err = r.create(ctx, caller, url)
		case err != nil || !strings.HasSuffix(w.URL, receiverPath) || w.URL == url:
			return err
		default:
			was := *w
			w.URL, w.UpdatedAt = url, r.store.Now()
			err = r.commit(ctx, caller, func(f tollgate.WebhookFacts) (*tollgate.WebhookChange, error) {
				return f.Change(r.store.Mint, r.store.Origin(caller), was, *w, tollgate.WebhookUpdated)
			})
		}
		if !errors.Is(err, rediskv.ErrConflict) { // with another sandbox on the same Redis
			return err
		}
	}
}

func (r *demoReceiver) create(ctx context.Context, caller rediskv.Caller, url string) error {
	key, err := tollgate.NewWebhookKey(1, tollgate.SignatureV1, r.entropy)
	if err != nil {
		return err
	}
	sealed, err := r.vault.Seal(r.entropy, keyPlace(key.Version, key.Scheme), key.Secret)
	if err != nil {
		return err
	}
	now, description := r.store.Now(), "The receiver of tollgate dev"
	w := tollgate.Endpoint{
		WebhookEndpoint: tollgate.WebhookEndpoint{
			Object: "webhook_endpoint", ID: demoWebhook, CreatedAt: now, UpdatedAt: now, URL: url, Description: &description,
			Status: tollgate.WebhookActive, SignatureScheme: key.Scheme, SchemaVersion: tollgate.SchemaVersion,
			SigningKeys: []tollgate.SigningKey{{Version: key.Version, Scheme: key.Scheme, CreatedAt: now}},
		},
		Sealed: []tollgate.SealedKey{{Version: key.Version, Scheme: key.Scheme, Secret: sealed}},
	}
	return r.commit(ctx, caller, func(f tollgate.WebhookFacts) (*tollgate.WebhookChange, error) {
		return f.Create(r.store.Mint, r.store.Origin(caller), w)
	})
}

func (r *demoReceiver) commit(ctx context.Context, caller rediskv.Caller, decide func(tollgate.WebhookFacts) (*tollgate.WebhookChange, error)) error {
	facts, err := r.store.WebhookFacts(ctx, caller.Organization)
	if err != nil {
		return err
	}
	change, err := decide(facts)
	if err != nil {
		return err
	}
	_, err = r.store.CommitWebhook(ctx, caller, nil, change, rediskv.Answer{})
	return err
}

// keyPlace is where a key of the demonstration's endpoint is sealed for.
func keyPlace(version int, scheme tollgate.SignatureScheme) string {
	return fmt.Sprintf("%s/%d/%s", demoWebhook, version, scheme)
}

// keys are the texts of the endpoint's keys that sign now, at least one, the
// newest last.
func (r *demoReceiver) keys(ctx context.Context) ([]string, error) {
	w, err := r.store.Webhook(ctx, rediskv.Caller{Organization: demoOrganization}, demoWebhook)
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, k := range w.SigningKeys {
		live[keyPlace(k.Version, k.Scheme)] = k.Live(r.store.Now())
	}
	var texts []string
	for _, k := range w.Sealed {
		place := keyPlace(k.Version, k.Scheme)
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
	m := message{
		id: req.Header.Get("Webhook-Id"), timestamp: req.Header.Get("Webhook-Timestamp"),
		signature: req.Header.Get("Webhook-Signature"), body: body,
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
	r.log.Info(fmt.Sprintf("delivered %s %s %d", event.Type, m.id, http.StatusOK))
}

// check is nil when one of the endpoint's keys has signed.
func (r *demoReceiver) check(ctx context.Context, m message) error {
	keys, err := r.keys(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err = m.verify(key, 5*time.Minute, r.clock()); err == nil {
			return nil
		}
	}
	return err
}
