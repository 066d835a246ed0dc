package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// webhook is what the command line shows of a webhook endpoint.
type webhook struct {
	ID                 string   `json:"id"`
	URL                string   `json:"url"`
	Description        *string  `json:"description"`
	Status             string   `json:"status"`
	EventTypes         []string `json:"event_types"`
	MerchantAccountIDs []string `json:"merchant_account_ids"`
	SignatureScheme    string   `json:"signature_scheme"`
	SigningKeys        []struct {
		Version   int     `json:"version"`
		Scheme    string  `json:"scheme"`
		CreatedAt string  `json:"created_at"`
		ExpiresAt *string `json:"expires_at"`
		PublicKey *string `json:"public_key"`
	} `json:"signing_keys"`
	DisabledReason *string           `json:"disabled_reason"`
	Metadata       map[string]string `json:"metadata"`
	UpdatedAt      string            `json:"updated_at"`
	Secret         string            `json:"secret"` // in the answers that make one
}

func (w *webhook) table() *table {
	t := &table{}
	t.row("webhook", w.ID)
	t.row("url", w.URL)
	if w.Description != nil {
		t.row("description", *w.Description)
	}
	t.row("status", w.status())
	t.row("events", joined(w.EventTypes, "all"))
	t.row("accounts", joined(w.MerchantAccountIDs, "all"))
	for _, k := range w.SigningKeys {
		text := fmt.Sprintf("version %d, %s, since %s", k.Version, k.Scheme, k.CreatedAt)
		if k.ExpiresAt != nil {
			text += " until " + *k.ExpiresAt
		}
		t.row("key", text)
		if k.PublicKey != nil {
			t.row("", *k.PublicKey)
		}
	}
	t.row("updated", w.UpdatedAt)
	if w.Secret != "" {
		t.row("secret", w.Secret+"  (shown this once)")
	}
	return t
}

func (w *webhook) status() string {
	if w.DisabledReason != nil {
		return fmt.Sprintf("%s (%s)", w.Status, *w.DisabledReason)
	}
	return w.Status
}

// newestKey is what a receiver needs of the newest key: the secret if it has
// just been made, else the public half of the last key that has one.
func (w *webhook) newestKey() string {
	text := ""
	for _, k := range w.SigningKeys {
		if k.PublicKey != nil {
			text = *k.PublicKey
		}
	}
	if w.Secret != "" {
		text = w.Secret
	}
	return text
}

// joined is a list as one text, empty for what it means when it is empty.
func joined(list []string, empty string) string {
	if len(list) == 0 {
		return empty
	}
	return strings.Join(list, ", ")
}

// showWebhook prints the answer of an endpoint that answers with a webhook.
func (c *client) showWebhook(body jsontext.Value) error {
	var w webhook
	if err := parse(body, &w); err != nil {
		return err
	}
	return c.show(body, w.ID, w.table())
}

// webhookPath is the path of a webhook endpoint and of what belongs to it.
func webhookPath(id, below string) string { return "/v1/webhooks/" + url.PathEscape(id) + below }

// deliveryPath is the path of what belongs to a delivery.
func deliveryPath(webhook, delivery, below string) string {
	return webhookPath(webhook, "/deliveries/"+url.PathEscape(delivery)+below)
}
