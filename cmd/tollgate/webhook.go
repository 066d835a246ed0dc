package main

import (
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

func webhookTable(w *tollgate.WebhookEndpoint) *table {
	t := &table{}
	t.row("webhook", w.ID)
	t.row("url", w.URL)
	if w.Description != nil {
		t.row("description", *w.Description)
	}
	t.row("status", webhookStatus(w))
	t.row("events", joined(w.EventTypes, "all"))
	t.row("accounts", joined(w.MerchantAccountIDs, "all"))
	for _, k := range w.SigningKeys {
		text := fmt.Sprintf("version %d, %s, since %s", k.Version, k.Scheme, k.CreatedAt)
		if k.ExpiresAt != 0 {
			text += " until " + k.ExpiresAt.String()
		}
		t.row("key", text)
		if k.PublicKey != nil {
			t.row("", *k.PublicKey)
		}
	}
	t.row("updated", w.UpdatedAt.String())
	if w.Secret != "" {
		t.row("secret", w.Secret+"  (shown this once)")
	}
	return t
}

func webhookStatus(w *tollgate.WebhookEndpoint) string {
	if w.DisabledReason != nil {
		return fmt.Sprintf("%s (%s)", w.Status, *w.DisabledReason)
	}
	return w.Status
}

// newestKey is what a receiver needs of the newest key: the secret if it has
// just been made, else the public half of the last key that has one.
func newestKey(w *tollgate.WebhookEndpoint) string {
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

// showWebhook prints the answer of an endpoint that answers with a webhook.
func (c *client) showWebhook(body jsontext.Value) error {
	var w tollgate.WebhookEndpoint
	if err := parse(body, &w); err != nil {
		return err
	}
	return c.show(body, w.ID, webhookTable(&w))
}

// webhookPath is the path of a webhook endpoint and of what belongs to it.
func webhookPath(id, below string) string { return "/v1/webhooks/" + url.PathEscape(id) + below }

// deliveryPath is the path of what belongs to a delivery.
func deliveryPath(webhook, delivery, below string) string {
	return webhookPath(webhook, "/deliveries/"+url.PathEscape(delivery)+below)
}
