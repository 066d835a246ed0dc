package tollgate

import (
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
)

// EventType is the kind of an event, such as payment.captured (interface §6).
type EventType string

// The event types that this release emits (interface §6).
const (
	PaymentAuthorized      EventType = "payment.authorized"
	PaymentCaptured        EventType = "payment.captured"
	PaymentDeclined        EventType = "payment.declined"
	PaymentReviewRequired  EventType = "payment.review_required"
	PaymentCanceled        EventType = "payment.canceled"
	PaymentReleased        EventType = "payment.released"
	PaymentExpired         EventType = "payment.expired"
	PaymentRefunded        EventType = "payment.refunded"
	PayoutCreated          EventType = "payout.created"
	PayoutPaid             EventType = "payout.paid"
	PayoutFailed           EventType = "payout.failed"
	PayoutHeld             EventType = "payout.held"
	PayoutReleased         EventType = "payout.released"
	CutoffUpdated          EventType = "cutoff.updated"
	ExportCreated          EventType = "export.created"
	ExportSucceeded        EventType = "export.succeeded"
	ExportFailedEvent      EventType = "export.failed"
	RulePublished          EventType = "rule.published"
	RuleActivated          EventType = "rule.activated"
	RuleRetired            EventType = "rule.retired"
	PerimeterActivated     EventType = "perimeter.activated"
	GrantCreated           EventType = "grant.created"
	GrantRevoked           EventType = "grant.revoked"
	OrganizationUpdated    EventType = "organization.updated"
	LegalEntityUpdated     EventType = "legal_entity.updated"
	MerchantAccountUpdated EventType = "merchant_account.updated"
	WebhookCreated         EventType = "webhook_endpoint.created"
	WebhookUpdated         EventType = "webhook_endpoint.updated"
	WebhookDisabled        EventType = "webhook_endpoint.disabled"
	WebhookEnabled         EventType = "webhook_endpoint.enabled"
	WebhookDeleted         EventType = "webhook_endpoint.deleted"
	WebhookSecretRotated   EventType = "webhook_endpoint.secret_rotated"
	DeliveryReplayed       EventType = "delivery.replayed"
	IntegrityFailed        EventType = "integrity.failed"
)

// EventPing is the type of what only tests an endpoint. It is in no log and no
// filter asks for it.
const EventPing EventType = "ping"

// EventKind is a row of the table of event types.
type EventKind struct {
	Type EventType
	Data any // the zero value of its data
	// Delivered is false of what is only listed: events about deliveries and
	// endpoints would feed on themselves.
	Delivered bool
}

// EventKinds is the one table of the event types of interface §6. The filters of
// events, the deliveries, the OpenAPI document and the documentation have these
// and no others.
var EventKinds = []EventKind{
	{PaymentAuthorized, PaymentEventData{}, true},
	{PaymentCaptured, PaymentEventData{}, true},
	{PaymentDeclined, PaymentEventData{}, true},
	{PaymentReviewRequired, PaymentEventData{}, true},
	{PaymentCanceled, PaymentEventData{}, true},
	{PaymentReleased, PaymentEventData{}, true},
	{PaymentExpired, PaymentEventData{}, true},
	{PaymentRefunded, PaymentEventData{}, true},
	{PayoutCreated, PayoutEventData{}, true},
	{PayoutPaid, PayoutEventData{}, true},
	{PayoutFailed, PayoutEventData{}, true},
	{CutoffUpdated, CutoffEventData{}, true},
	{ExportCreated, ExportEventData{}, true},
	{ExportSucceeded, ExportEventData{}, true},
	{ExportFailedEvent, ExportEventData{}, true},
	{RulePublished, RulePublishedData{}, true},
	{RuleActivated, MerchantAccountEventData{}, true},
	{RuleRetired, RuleRetiredData{}, true},
	{PerimeterActivated, MerchantAccountEventData{}, true},
	{GrantCreated, GrantEventData{}, true},
	{GrantRevoked, GrantEventData{}, true},
	{OrganizationUpdated, OrganizationEventData{}, true},
	{LegalEntityUpdated, LegalEntityEventData{}, true},
	{MerchantAccountUpdated, MerchantAccountEventData{}, true},
	{WebhookCreated, WebhookEventData{}, false},
	{WebhookUpdated, WebhookEventData{}, false},
	{WebhookDisabled, WebhookEventData{}, false},
	{WebhookEnabled, WebhookEventData{}, false},
	{WebhookDeleted, WebhookEventData{}, false},
	{WebhookSecretRotated, WebhookEventData{}, false},
	{DeliveryReplayed, DeliveryReplayedData{}, false},
	{IntegrityFailed, IntegrityData{}, true},
	{PayoutHeld, PayoutEventData{}, true},
	{PayoutReleased, PayoutEventData{}, true},
}

// EventTypes lists the types of the table; kindOf finds their rows.
var EventTypes, kindOf = func() (types []EventType, rows map[EventType]EventKind) {
	rows = make(map[EventType]EventKind, len(EventKinds))
	for _, k := range EventKinds {
		types, rows[k.Type] = append(types, k.Type), k
	}
	return types, rows
}()

// Deliverable reports whether events of a type are ever delivered. Those that
// only a later release knows are.
func (t EventType) Deliverable() bool {
	k, known := kindOf[t]
	return !known || k.Delivered
}

// Read is the event's data: a pointer to what the table has for its type, nil of
// a type that this release does not know.
func (e *Event) Read() (any, error) {
	k, known := kindOf[e.Type]
	if !known {
		return nil, nil
	}
	data := reflect.New(reflect.TypeOf(k.Data)).Interface()
	if err := json.Unmarshal(e.Data, data); err != nil {
		return nil, fmt.Errorf("event %s: %w", e.ID, err)
	}
	return data, nil
}
