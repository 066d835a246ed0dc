package tollgate

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
)

// Prefixes of the identifiers of webhooks.
const (
	PrefixWebhook  = "we_"
	PrefixDelivery = "dlv_"
	PrefixAttempt  = "att_"
	PrefixReplay   = "rpl_"
	PrefixRecovery = "rcv_"
)

// SignatureScheme says how deliveries to an endpoint are signed.
type SignatureScheme string

// The schemes of Standard Webhooks: HMAC-SHA256, Ed25519, or both side by side.
const (
	SignatureV1   SignatureScheme = "v1"
	SignatureV1a  SignatureScheme = "v1a"
	SignatureBoth SignatureScheme = "both"
)

// Schemes lists the single schemes that a choice stands for.
func (s SignatureScheme) Schemes() []SignatureScheme {
	if s == SignatureBoth {
		return []SignatureScheme{SignatureV1, SignatureV1a}
	}
	return []SignatureScheme{s}
}

const (
	// WebhookActive and WebhookDisabledStatus are the states of an endpoint.
	WebhookActive         = "active"
	WebhookDisabledStatus = "disabled"
	// MaxSigningKeys is how many versions of an endpoint's keys live at once.
	MaxSigningKeys = 3
)

// SigningKey is one version of an endpoint's signing key, without the secret.
type SigningKey struct {
	Version   int             `json:"version"` // 1, 2, 3 …
	Scheme    SignatureScheme `json:"scheme"`  // v1 or v1a
	CreatedAt Instant         `json:"created_at"`
	ExpiresAt Instant         `json:"expires_at"` // null: until it is rotated
	PublicKey *string         `json:"public_key"` // whpk_… of a v1a key
}

// Live reports whether the key signs at a moment.
func (k SigningKey) Live(now Instant) bool { return k.ExpiresAt == 0 || now < k.ExpiresAt }

// WebhookEndpoint is where events are delivered, and the JSON of it.
type WebhookEndpoint struct {
	Object             string          `json:"object"` // "webhook_endpoint"
	ID                 string          `json:"id"`
	CreatedAt          Instant         `json:"created_at"`
	URL                string          `json:"url"`
	Description        *string         `json:"description"`
	Status             string          `json:"status"` // active or disabled
	EventTypes         []string        `json:"event_types"`
	MerchantAccountIDs []string        `json:"merchant_account_ids"`
	SignatureScheme    SignatureScheme `json:"signature_scheme"`
	SchemaVersion      string          `json:"schema_version"`
	SigningKeys        []SigningKey    `json:"signing_keys"`
	DisabledReason     *string         `json:"disabled_reason"`
	Metadata           Metadata        `json:"metadata"`
	UpdatedAt          Instant         `json:"updated_at"`
	// Secret is shown once: in the answer that makes it.
	Secret string `json:"secret,omitempty"`

	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
}

// Wants reports whether an event is delivered to the endpoint.
func (w *WebhookEndpoint) Wants(t EventType, account string) bool {
	if !t.Deliverable() {
		return false
	}
	if len(w.MerchantAccountIDs) > 0 && !slices.Contains(w.MerchantAccountIDs, account) {
		return false
	}
	return TypeFilter(w.EventTypes).Match(string(t))
}

// DeliveryState is a state of a delivery.
type DeliveryState string

// The states (interface §3).
const (
	DeliveryPending   DeliveryState = "pending"
	DeliverySending   DeliveryState = "sending"
	DeliveryRetrying  DeliveryState = "retrying"
	DeliverySucceeded DeliveryState = "succeeded"
	DeliveryFailed    DeliveryState = "failed"
	DeliveryHeld      DeliveryState = "held"
	DeliveryCanceled  DeliveryState = "canceled"
)

// DeliveryStates lists them for filters.
var DeliveryStates = []DeliveryState{
	DeliveryPending, DeliverySending, DeliveryRetrying, DeliverySucceeded, DeliveryFailed, DeliveryHeld, DeliveryCanceled,
}

// Delivery is one event on its way to one endpoint, and the JSON of it.
type Delivery struct {
	Object         string        `json:"object"` // "delivery"
	ID             string        `json:"id"`
	CreatedAt      Instant       `json:"created_at"`
	WebhookID      string        `json:"webhook_id"`
	EventID        string        `json:"event_id"`
	EventType      EventType     `json:"event_type"`
	State          DeliveryState `json:"state"`
	AttemptCount   int           `json:"attempt_count"`
	NextAttemptAt  Instant       `json:"next_attempt_at"`
	LastAttemptAt  Instant       `json:"last_attempt_at"`
	CompletedAt    Instant       `json:"completed_at"`
	LastStatusCode *int          `json:"last_status_code"`
	FailureReason  *string       `json:"failure_reason"`
	ReplayCount    int           `json:"replay_count"`

	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
}

// DeliveryOf is the id of an event's one delivery to an endpoint: whoever
// computes it, however often, means the same delivery.
func DeliveryOf(event, endpoint string) string {
	sum := sha256.Sum256([]byte(event + "/" + endpoint))
	tail := strings.ToLower(base32.HexEncoding.EncodeToString(sum[:10]))
	return PrefixDelivery + event[len(PrefixEvent):len(PrefixEvent)+10] + tail
}

// AttemptTrigger says why an attempt was made.
type AttemptTrigger string

// The triggers.
const (
	TriggeredBySchedule AttemptTrigger = "schedule"
	TriggeredByReplay   AttemptTrigger = "replay"
	TriggeredByRecovery AttemptTrigger = "recovery"
)

// AttemptStatus is how an attempt ended; unknown when its worker died.
type AttemptStatus string

// The statuses.
const (
	AttemptSucceeded AttemptStatus = "succeeded"
	AttemptFailed    AttemptStatus = "failed"
	AttemptUnknown   AttemptStatus = "unknown"
)

// Attempt is one try to deliver, kept like every other, and the JSON of it.
type Attempt struct {
	Object        string           `json:"object"` // "attempt"
	ID            string           `json:"id"`
	CreatedAt     Instant          `json:"created_at"`
	DeliveryID    string           `json:"delivery_id"`
	Number        int              `json:"number"` // from 1; never used twice
	Trigger       AttemptTrigger   `json:"trigger"`
	ReplayID      *string          `json:"replay_id"`
	Status        AttemptStatus    `json:"status"`
	StartedAt     Instant          `json:"started_at"`
	DurationMS    *int64           `json:"duration_ms"`
	Timing        AttemptTiming    `json:"timing"`
	URL           string           `json:"url"`
	Request       AttemptRequest   `json:"request"`
	SigningKeys   []AttemptKey     `json:"signing_keys"`
	Response      *AttemptResponse `json:"response"`
	Error         *AttemptError    `json:"error"`
	NextAttemptAt Instant          `json:"next_attempt_at"`
}

// AttemptTiming is how long each phase took; null for one that was not reached
// or not needed.
type AttemptTiming struct {
	DNSMS       *int64 `json:"dns_ms"`
	ConnectMS   *int64 `json:"connect_ms"`
	TLSMS       *int64 `json:"tls_ms"`
	FirstByteMS *int64 `json:"first_byte_ms"`
}

// AttemptRequest is what was sent.
type AttemptRequest struct {
	BodySHA256 string `json:"body_sha256"`
	BodyBytes  int    `json:"body_bytes"`
}

// AttemptKey is a key that signed the attempt.
type AttemptKey struct {
	Version int             `json:"version"`
	Scheme  SignatureScheme `json:"scheme"`
}

// AttemptResponse is what came back, at most 4 KiB of it.
type AttemptResponse struct {
	StatusCode int               `json:"status_code"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	Truncated  bool              `json:"truncated"`
}

// AttemptError is what went wrong before there was an answer, or with it.
type AttemptError struct {
	Code    string `json:"code"` // such as egress_blocked, dns_failed, connect_failed, tls_failed, timeout, response_invalid
	Message string `json:"message"`
}

// Replay is a delivery sent again by request, linked to the original.
type Replay struct {
	Object             string        `json:"object"` // "replay"
	ID                 string        `json:"id"`
	CreatedAt          Instant       `json:"created_at"`
	DeliveryID         string        `json:"delivery_id"`
	OriginalDeliveryID string        `json:"original_delivery_id"`
	EventID            string        `json:"event_id"`
	WebhookID          string        `json:"webhook_id"`
	State              DeliveryState `json:"state"`
	Reason             *string       `json:"reason"`
	CompletedAt        Instant       `json:"completed_at"`
}

// DeliveryReplayedData is the data of delivery.replayed.
type DeliveryReplayedData struct {
	DeliveryID string  `json:"delivery_id"`
	ReplayID   string  `json:"replay_id"`
	WebhookID  string  `json:"webhook_id"`
	EventID    string  `json:"event_id"`
	Reason     *string `json:"reason"`
}

// Recovery is a stored job that sends what an endpoint missed: deliveries that
// are held or failed since a moment are queued again.
type Recovery struct {
	Object      string  `json:"object"` // "recovery"
	ID          string  `json:"id"`
	CreatedAt   Instant `json:"created_at"`
	WebhookID   string  `json:"webhook_id"`
	Since       Instant `json:"since"`
	State       string  `json:"state"`
	Looked      int64   `json:"looked"` // deliveries looked at
	Queued      int64   `json:"queued"` // of these, queued again
	CompletedAt Instant `json:"completed_at"`
}

// The states of a recovery.
const (
	RecoveryPending   = "pending"
	RecoveryRunning   = "running"
	RecoverySucceeded = "succeeded"
)
