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
	ClientCreated          EventType = "client.created"
	ClientUpdated          EventType = "client.updated"
	ClientDisabled         EventType = "client.disabled"
	ClientEnabled          EventType = "client.enabled"
	KeyRotated             EventType = "key.rotated"
	KeyRevoked             EventType = "key.revoked"
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
	Type      EventType
	Data      any  // the zero value of its data
	Delivered bool // not of deliveries and endpoints, which are only listed: they would feed on themselves
}

// EventKinds is the one table of the event types of interface §6: filters, deliveries,
// the OpenAPI document and the documentation have these and no others.
var EventKinds = kinds([]ofData{
	{PaymentEventData{}, true, []EventType{PaymentAuthorized, PaymentCaptured, PaymentDeclined, PaymentReviewRequired, PaymentCanceled, PaymentReleased, PaymentExpired, PaymentRefunded}},
	{PayoutEventData{}, true, []EventType{PayoutCreated, PayoutPaid, PayoutFailed}},
	{CutoffEventData{}, true, []EventType{CutoffUpdated}},
	{ExportEventData{}, true, []EventType{ExportCreated, ExportSucceeded, ExportFailedEvent}},
	{RulePublishedData{}, true, []EventType{RulePublished}},
	{MerchantAccountEventData{}, true, []EventType{RuleActivated}},
	{RuleRetiredData{}, true, []EventType{RuleRetired}},
	{MerchantAccountEventData{}, true, []EventType{PerimeterActivated}},
	{GrantEventData{}, true, []EventType{GrantCreated, GrantRevoked}},
	{ClientEventData{}, true, []EventType{ClientCreated, ClientUpdated, ClientDisabled, ClientEnabled}},
	{KeyEventData{}, true, []EventType{KeyRotated, KeyRevoked}},
	{OrganizationEventData{}, true, []EventType{OrganizationUpdated}},
	{LegalEntityEventData{}, true, []EventType{LegalEntityUpdated}},
	{MerchantAccountEventData{}, true, []EventType{MerchantAccountUpdated}},
	{WebhookEventData{}, false, []EventType{WebhookCreated, WebhookUpdated, WebhookDisabled, WebhookEnabled, WebhookDeleted, WebhookSecretRotated}},
	{DeliveryReplayedData{}, false, []EventType{DeliveryReplayed}},
	{IntegrityData{}, true, []EventType{IntegrityFailed}},
	{PayoutEventData{}, true, []EventType{PayoutHeld, PayoutReleased}},
})

// ofData are event types that have the same data.
type ofData struct {
	data      any
	delivered bool
	types     []EventType
}

func kinds(table []ofData) (rows []EventKind) {
	for _, of := range table {
		for _, t := range of.types {
			rows = append(rows, EventKind{t, of.data, of.delivered})
		}
	}
	return rows
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
