package tollgate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SchemaVersion is the version of the event schema (spec §9), a date.
const SchemaVersion = "2026-11-01"

// Event is one change (spec §6). It is written by the script that makes the
// change, and its JSON is frozen there.
type Event struct {
	Object            string         `json:"object"` // "event"
	ID                string         `json:"id"`
	CreatedAt         Instant        `json:"created_at"`
	Type              EventType      `json:"type"`
	SchemaVersion     string         `json:"schema_version"`
	Sequence          int64          `json:"sequence"`   // 1, 2, 3 … per organization and history; given by the script
	HistoryID         *string        `json:"history_id"` // given by the script; nil of a ping, and of events of earlier releases
	OrganizationID    string         `json:"organization_id"`
	MerchantAccountID *string        `json:"merchant_account_id"`
	RequestID         *string        `json:"request_id"`
	Data              jsontext.Value `json:"data"`
}

// NewEvent makes an event whose data is the JSON of the given struct.
func NewEvent(id string, t EventType, at Instant, org, account, request string, data any) (Event, error) {
	text, err := json.Marshal(data, json.Deterministic(true))
	return Event{
		Object: "event", ID: id, CreatedAt: at, Type: t, SchemaVersion: SchemaVersion, OrganizationID: org,
		MerchantAccountID: optional(account), RequestID: optional(request), Data: text,
	}, err
}

// Names reports whether the event's data names an id in one of its *_id members.
func (e *Event) Names(id string) bool {
	want := []byte(`"` + id + `"`)
	var members map[string]jsontext.Value
	if !bytes.Contains(e.Data, want) || json.Unmarshal(e.Data, &members) != nil {
		return false
	}
	for name, value := range members {
		if strings.HasSuffix(name, "_id") && bytes.Equal(value, want) {
			return true
		}
	}
	return false
}

// TypeFilter selects events by type: exact types and "payment.*" patterns;
// empty selects all.
type TypeFilter []string

// ParseTypeFilter reads a comma-separated list and refuses what can never
// match.
func ParseTypeFilter(param, list string) (TypeFilter, error) {
	if list == "" {
		return nil, nil
	}
	var f TypeFilter
	for part := range strings.SplitSeq(list, ",") {
		prefix, wild := strings.CutSuffix(part, "*")
		known := slices.ContainsFunc(EventTypes, func(t EventType) bool {
			return string(t) == part || (wild && strings.HasSuffix(prefix, ".") && strings.HasPrefix(string(t), prefix))
		})
		if !known {
			return nil, Invalid(param, "%s is neither an event type nor a pattern such as payment.*.", quoted(part))
		}
		f = append(f, part)
	}
	return f, nil
}

// Match reports whether an event of type t is selected.
func (f TypeFilter) Match(t string) bool {
	return len(f) == 0 || slices.ContainsFunc(f, func(part string) bool {
		prefix, wild := strings.CutSuffix(part, "*")
		return part == t || (wild && strings.HasPrefix(t, prefix))
	})
}

// All lists the types that the filter selects; nil when it selects every one.
func (f TypeFilter) All() (types []string) {
	for _, t := range EventTypes {
		if len(f) > 0 && f.Match(string(t)) {
			types = append(types, string(t))
		}
	}
	return types
}

// optional is nil for the empty string: null in JSON.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// PaymentEventData is the data of every payment.* event: the ids first, then
// what a receiver needs to act (interface §6). The capture's id is there for
// payment.captured only, the refund's id and sum for payment.refunded only.
type PaymentEventData struct {
	PaymentID          string            `json:"payment_id"`
	TicketID           string            `json:"ticket_id"`
	CaptureID          string            `json:"capture_id,omitempty"`
	RefundID           string            `json:"refund_id,omitempty"`
	MerchantAccountID  string            `json:"merchant_account_id"`
	Amount             Money             `json:"amount"` // of the capture in payment.captured, of the refund in payment.refunded, else of the payment
	Currency           Currency          `json:"currency"`
	Payee              KeptPayee         `json:"payee"`
	Status             PaymentStatus     `json:"status"`
	AmountCaptured     Money             `json:"amount_captured"`
	AmountCapturable   Money             `json:"amount_capturable"`
	AmountReleased     Money             `json:"amount_released"`
	AmountRefunded     *Money            `json:"amount_refunded,omitempty"`
	FeeTotal           Money             `json:"fee_total"`
	CaptureBefore      Instant           `json:"capture_before"`
	Reference          *string           `json:"reference"`
	Perimeter          PerimeterDecision `json:"perimeter"`
	CancellationReason *string           `json:"cancellation_reason"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (e *PaymentEventData) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain PaymentEventData
	return readMoney(d, (*plain)(e), &e.Currency, Currency.amounts)
}

// data describes the payment after the transition.
func (c *PaymentChange) data() PaymentEventData {
	p := c.Payment
	d := PaymentEventData{
		PaymentID: p.ID, TicketID: p.TicketID, MerchantAccountID: p.MerchantAccountID,
		Amount: p.Amount, Currency: p.Currency, Payee: p.Payee, Status: p.Status,
		AmountCaptured: p.AmountCaptured, AmountCapturable: p.AmountCapturable, AmountReleased: p.AmountReleased,
		FeeTotal: p.FeeTotal, CaptureBefore: p.CaptureBefore, Reference: p.Reference, Perimeter: p.Perimeter,
		CancellationReason: p.CancellationReason,
	}
	switch {
	case c.Capture != nil:
		d.CaptureID, d.Amount, d.FeeTotal = c.Capture.ID, c.Capture.Amount, c.Capture.FeeTotal
	case c.Refund != nil:
		d.RefundID, d.Amount, d.FeeTotal, d.AmountRefunded = c.Refund.ID, c.Refund.Amount, c.Refund.FeeTotal, &p.AmountRefunded
	}
	return d
}

// ResourceChange is what an event says of a changed organization, legal entity,
// merchant account, grant or client.
type ResourceChange struct {
	Kind, ID  string
	Revision  int64          // that it has now
	Changed   []string       // members; none where it is new
	Document  jsontext.Value // as it is now
	Effective Date           // of a changed cutoff
	KeyID     string         // of a client whose key is added or removed
}

// OrganizationEventData is the data of organization.updated. As in all events of
// resources, behind the id stand the revision, the members that changed, and the
// members of the resource that a receiver needs so that it can act without
// reading it (interface §6).
type OrganizationEventData struct {
	OrganizationID string   `json:"organization_id"`
	Revision       int64    `json:"revision"`
	Changed        []string `json:"changed"`
	Name           string   `json:"name"`
	Status         string   `json:"status"`
}

// LegalEntityEventData is the data of legal_entity.updated.
type LegalEntityEventData struct {
	LegalEntityID string   `json:"legal_entity_id"`
	Revision      int64    `json:"revision"`
	Changed       []string `json:"changed"`
	Status        string   `json:"status"`
}

// MerchantAccountEventData is the data of events of an account, but one.
type MerchantAccountEventData struct {
	MerchantAccountID string       `json:"merchant_account_id"`
	Revision          int64        `json:"revision"`
	Changed           []string     `json:"changed"`
	Status            string       `json:"status"`
	Cutoff            Cutoff       `json:"cutoff"`
	Perimeter         PerimeterRef `json:"perimeter"`
	RuleSet           RuleSet      `json:"rule_set"`
}

// CutoffEventData is the data of cutoff.updated.
type CutoffEventData struct {
	MerchantAccountEventData
	EffectiveDate Date `json:"effective_date"` // the first sales day that ends by it
}

// GrantEventData is the data of grant.created and grant.revoked.
type GrantEventData struct {
	GrantID            string   `json:"grant_id"`
	Revision           int64    `json:"revision"`
	Changed            []string `json:"changed"`
	ClientID           string   `json:"client_id"`
	Scopes             []string `json:"scopes"`
	MerchantAccountIDs []string `json:"merchant_account_ids"`
	Status             string   `json:"status"`
}

// ClientEventData is the data of client.* events.
type ClientEventData struct {
	ClientID string   `json:"client_id"`
	Revision int64    `json:"revision"`
	Changed  []string `json:"changed"`
	Name     string   `json:"name"`
	Status   string   `json:"status"`
}

// KeyEventData is the data of key.rotated and key.revoked.
type KeyEventData struct {
	ClientEventData
	KeyID string `json:"kid"`
}

// data is that of an event of a type, without the members of the resource.
func (r ResourceChange) data(t EventType) any {
	account := MerchantAccountEventData{MerchantAccountID: r.ID, Revision: r.Revision, Changed: r.Changed}
	switch {
	case r.Kind == "organization":
		return &OrganizationEventData{OrganizationID: r.ID, Revision: r.Revision, Changed: r.Changed}
	case r.Kind == "legal_entity":
		return &LegalEntityEventData{LegalEntityID: r.ID, Revision: r.Revision, Changed: r.Changed}
	case r.Kind == "grant":
		return &GrantEventData{GrantID: r.ID, Revision: r.Revision, Changed: r.Changed}
	case r.Kind == "client":
		client := ClientEventData{ClientID: r.ID, Revision: r.Revision, Changed: r.Changed}
		if t == KeyRotated || t == KeyRevoked {
			return &KeyEventData{client, r.KeyID}
		}
		return &client
	case t == CutoffUpdated:
		return &CutoffEventData{account, r.Effective}
	default:
		return &account
	}
}

// event makes an event of the change. The document has the members that the
// event carries of it under the same names.
func (r ResourceChange) event(newID NewIDFunc, o Origin, t EventType) (Event, error) {
	account := ""
	if r.Kind == "merchant_account" {
		account = r.ID
	}
	data := r.data(t)
	if err := json.Unmarshal(r.Document, data); err != nil {
		return Event{}, fmt.Errorf("event %s: %w", t, err)
	}
	return NewEvent(newID(PrefixEvent), t, o.At, o.Organization, account, o.RequestID, data)
}
