package webhooks

import (
	"fmt"
	"net/url"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func webhookTable(w *tollgate.WebhookEndpoint) *cli.Table {
	t := &cli.Table{}
	t.Row("webhook", w.ID)
	t.Row("url", w.URL)
	if w.Description != nil {
		t.Row("description", *w.Description)
	}
	t.Row("status", webhookStatus(w))
	t.Row("events", cli.Joined(w.EventTypes, "all"))
	t.Row("accounts", cli.Joined(w.MerchantAccountIDs, "all"))
	for _, k := range w.SigningKeys {
		text := fmt.Sprintf("version %d, %s, since %s", k.Version, k.Scheme, k.CreatedAt)
		if k.ExpiresAt != 0 {
			text += " until " + k.ExpiresAt.String()
		}
		t.Row("key", text)
		if k.PublicKey != nil {
			t.Row("", *k.PublicKey)
		}
	}
	t.Row("updated", w.UpdatedAt.String())
	if w.Secret != "" {
		t.Row("secret", w.Secret+"  (shown this once)")
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
func showWebhook(c *cli.Client) func(cli.Raw, error) error {
	return cli.Answered(c, func(w *tollgate.WebhookEndpoint) (string, *cli.Table) { return w.ID, webhookTable(w) })
}

// webhookPath is the path of a webhook endpoint and of what belongs to it.
func webhookPath(id, below string) string { return "/v1/webhooks/" + url.PathEscape(id) + below }

// deliveryPath is the path of what belongs to a delivery.
func deliveryPath(webhook, delivery, below string) string {
	return webhookPath(webhook, "/deliveries/"+url.PathEscape(delivery)+below)
}
