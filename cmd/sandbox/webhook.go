package sandbox

import (
	"context"
	"errors"
	"io"

	"tollgate"
	"tollgate/handlers/secret"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
)

// Endpoint is the demonstration's webhook endpoint.
type Endpoint struct {
	Store   *store.Store
	Vault   *secret.Vault
	Entropy io.Reader
}

// Lead makes the endpoint where there is none. Where it leads to an address that
// is ours, as of an earlier start, it is moved to url. An address that somebody has
// given it is left as it is.
func (e *Endpoint) Lead(ctx context.Context, url, description string, ours func(url string) bool) error {
	caller := rediskv.Caller{Organization: Organization}
	for {
		w, err := e.Store.Webhook(ctx, caller, Webhook)
		var refused *tollgate.Error
		switch {
		case errors.As(err, &refused) && refused.Code == tollgate.CodeNotFound:
			err = e.create(ctx, caller, url, description)
		case err != nil || w.URL == url || !ours(w.URL):
			return err
		default:
			err = e.move(ctx, caller, *w, url)
		}
		if !errors.Is(err, rediskv.ErrConflict) { // with another sandbox on the same Redis
			return err
		}
	}
}

func (e *Endpoint) create(ctx context.Context, caller rediskv.Caller, url, description string) error {
	there, err := e.Store.WebhookList(ctx, caller.Organization)
	if err != nil {
		return err
	}
	o := e.Store.Origin(caller)
	w := tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{
		Object: "webhook_endpoint", ID: Webhook, CreatedAt: o.At, UpdatedAt: o.At, URL: url, Description: &description,
		Status: tollgate.WebhookActive, SignatureScheme: tollgate.SignatureV1, SchemaVersion: tollgate.SchemaVersion,
	}}
	if _, err := e.keys().Make(&w, o.At); err != nil {
		return err
	}
	change, err := tollgate.CreateWebhook(e.Store.NewID, o, there, w)
	if err != nil {
		return err
	}
	_, err = e.Store.CommitWebhook(ctx, caller, nil, change, rediskv.Answer{})
	return err
}

func (e *Endpoint) move(ctx context.Context, caller rediskv.Caller, w tollgate.StoredWebhook, url string) error {
	want := w.WebhookEndpoint
	want.URL = url
	change, err := tollgate.ChangeWebhook(e.Store.NewID, e.Store.Origin(caller), e.keys(), w, want)
	if err != nil {
		return err
	}
	_, err = e.Store.CommitWebhook(ctx, caller, nil, change, rediskv.Answer{})
	return err
}

func (e *Endpoint) keys() tollgate.WebhookKeys {
	return tollgate.WebhookKeys{Entropy: e.Entropy, Seal: func(place string, text []byte) ([]byte, error) {
		return e.Vault.Seal(e.Entropy, place, text)
	}}
}

// Keys are the texts of the endpoint's keys that sign now, at least one, the
// newest last.
func (e *Endpoint) Keys(ctx context.Context) ([]string, error) {
	w, err := e.Store.Webhook(ctx, rediskv.Caller{Organization: Organization}, Webhook)
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, k := range w.SigningKeys {
		live[tollgate.SigningKeyPlace(w.ID, k.Version, k.Scheme)] = k.Live(e.Store.Now())
	}
	var texts []string
	for _, k := range w.Sealed {
		place := tollgate.SigningKeyPlace(w.ID, k.Version, k.Scheme)
		if !live[place] {
			continue
		}
		secret, err := e.Vault.Open(place, k.Secret)
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
