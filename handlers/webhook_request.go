package handlers

import (
	"slices"
	"strings"

	"tollgate"
	"tollgate/handlers/input"
)

// Sizes of an endpoint's lists.
const (
	maxEventTypes = 50
	maxAccounts   = 100
)

// webhookRequest is the body of POST /v1/webhooks. Its JSON is what the
// Idempotency-Key stands for.
type webhookRequest struct {
	URL         string                   `json:"url"`
	Description *string                  `json:"description"`
	EventTypes  []string                 `json:"event_types"`
	Accounts    []string                 `json:"merchant_account_ids"`
	Scheme      tollgate.SignatureScheme `json:"signature_scheme"`
	Metadata    tollgate.Metadata        `json:"metadata"`
}

func parseWebhook(f *input.Fields) webhookRequest { return webhookFields(f, true) }

func webhookFields(f *input.Fields, isNew bool) webhookRequest {
	url, _ := f.Text("url", isNew)
	return webhookRequest{
		URL: url, Description: f.Note("description", maxDescription),
		EventTypes: f.List("event_types", maxEventTypes, checkEventType),
		Accounts:   f.List("merchant_account_ids", maxAccounts, checkAccountID),
		Scheme: tollgate.SignatureScheme(f.Choice("signature_scheme", string(tollgate.SignatureV1),
			string(tollgate.SignatureV1), string(tollgate.SignatureV1a), string(tollgate.SignatureBoth))),
		Metadata: f.Metadata(),
	}
}

// webhookChange is the body of PATCH /v1/webhooks/{webhook_id}: what is left
// out stays, and null takes away what need not be there.
type webhookChange struct {
	webhookRequest
	status string
	given  map[string]bool
}

func parseWebhookChange(f *input.Fields) webhookChange {
	r := webhookChange{webhookRequest: webhookFields(f, false), given: make(map[string]bool)}
	r.status = f.Choice("status", tollgate.WebhookActive, tollgate.WebhookActive, tollgate.WebhookDisabledStatus)
	for _, name := range []string{"url", "signature_scheme", "status"} {
		f.NeedsValue(name)
	}
	for name := range f.Names() {
		r.given[name] = true
	}
	return r
}

// applied is the endpoint as the request wants it; accounts are those that it
// names, or all of the grant.
func (r *webhookChange) applied(w tollgate.WebhookEndpoint, accounts []string) tollgate.WebhookEndpoint {
	given(r, "url", &w.URL, r.URL)
	given(r, "description", &w.Description, r.Description)
	given(r, "event_types", &w.EventTypes, r.EventTypes)
	given(r, "merchant_account_ids", &w.MerchantAccountIDs, accounts)
	given(r, "signature_scheme", &w.SignatureScheme, r.Scheme)
	given(r, "metadata", &w.Metadata, r.Metadata)
	given(r, "status", &w.Status, r.status)
	return w
}

// given takes over what the request names.
func given[T any](r *webhookChange, name string, to *T, value T) {
	if r.given[name] {
		*to = value
	}
}

// checkEventType accepts a type or a pattern that some delivered event has.
func checkEventType(param, item string) error {
	if item == "" || strings.Contains(item, ",") {
		return tollgate.Invalid(param, "Each of %s is one event type or a pattern such as payment.*.", param)
	}
	filter, err := tollgate.ParseTypeFilter(param, item)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(tollgate.EventTypes, func(t tollgate.EventType) bool { return t.Deliverable() && filter.Match(string(t)) }) {
		return tollgate.Invalid(param, "%s events are listed, and never delivered.", item)
	}
	return nil
}

func checkAccountID(param, item string) error {
	if !tollgate.ValidID(item) {
		return tollgate.Invalid(param, "Each of %s is an identifier.", param)
	}
	return nil
}
