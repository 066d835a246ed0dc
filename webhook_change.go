package tollgate

// Endpoint is a webhook endpoint with its encrypted keys and its health.
type Endpoint struct {
	WebhookEndpoint
	Sealed      []SealedKey
	Revision    int64   // 0: it is new
	LastSuccess Instant // zero: never
	Failures    int64   // deliveries given up since then
}

// SealedKey is a signing key's secret, encrypted for its endpoint, version and
// scheme.
type SealedKey struct {
	Version int             `json:"version"`
	Scheme  SignatureScheme `json:"scheme"`
	Secret  []byte          `json:"secret"`
}

// WebhookFacts are what a change of an organization's endpoints is decided from,
// beside the endpoint itself: how many there are, and their list's revision.
type WebhookFacts struct {
	Endpoints int
	Revision  int64 // 0: there have been none
}

// WebhookChange is everything that a change of an endpoint writes, all or nothing,
// if neither the endpoint nor the list has changed since they were read.
type WebhookChange struct {
	Endpoint Endpoint // as it becomes, at the revision that it was read at
	Removed  bool     // a job cancels what is still to be delivered
	Renewed  bool     // its health begins anew
	Facts    WebhookFacts
	Event    Event
	Audit    AuditEntry
}

// Create makes an endpoint. CodeQuotaExceeded when there are MaxWebhooks already.
func (f WebhookFacts) Create(mint Mint, o Origin, w Endpoint) (*WebhookChange, error) {
	if f.Endpoints >= MaxWebhooks {
		return nil, QuotaExceeded("webhooks", "An organization has at most %d webhook endpoints; remove one.", MaxWebhooks)
	}
	w.Revision = 0
	return f.change(mint, o, Endpoint{}, w, WebhookCreated)
}

// Change makes an endpoint what it is to be now; event says what changed. One
// that is enabled or moved has no health yet.
func (f WebhookFacts) Change(mint Mint, o Origin, was, now Endpoint, event EventType) (*WebhookChange, error) {
	return f.change(mint, o, was, now, event)
}

// Disable ends deliveries to an endpoint that was found wanting.
func (f WebhookFacts) Disable(mint Mint, o Origin, w Endpoint, reason string) (*WebhookChange, error) {
	now := w
	now.Status, now.DisabledReason, now.UpdatedAt = WebhookDisabledStatus, &reason, o.At
	return f.change(mint, o, w, now, WebhookDisabled)
}

// Remove takes an endpoint away.
func (f WebhookFacts) Remove(mint Mint, o Origin, w Endpoint) (*WebhookChange, error) {
	c, err := f.change(mint, o, w, w, WebhookDeleted)
	if c != nil {
		c.Removed, c.Renewed = true, false
	}
	return c, err
}

func (f WebhookFacts) change(mint Mint, o Origin, was, now Endpoint, event EventType) (*WebhookChange, error) {
	now.Secret = "" // shown once, kept sealed
	c := &WebhookChange{
		Endpoint: now, Facts: f,
		Renewed: now.Status == WebhookActive && (was.Status != WebhookActive || was.URL != now.URL),
		Audit:   AuditEntry{Type: string(event), Outcome: "succeeded", Target: AuditTarget{Type: "webhook_endpoint", ID: now.ID}},
	}
	var err error
	c.Event, err = NewEvent(mint(PrefixEvent), event, o.At, o.Organization, "", o.RequestID, WebhookEventData{now.ID, now.Status, now.DisabledReason})
	return c, err
}

// WebhookEventData is the data of every webhook_endpoint.* event.
type WebhookEventData struct {
	WebhookID      string  `json:"webhook_id"`
	Status         string  `json:"status"`
	DisabledReason *string `json:"disabled_reason"`
}
