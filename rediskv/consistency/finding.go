// Package consistency says which of the stored records must agree, and compares them:
// purely, of what others have read.
package consistency

import (
	"cmp"
	"fmt"

	"tollgate"
)

// FindingKind says which of the things that must agree do not.
type FindingKind string

// The kinds of findings (interface §11, "check").
const (
	FindingDamaged     FindingKind = "damaged"     // an object cannot be read
	FindingPayment     FindingKind = "payment"     // a payment, its transactions, its ticket, its captures and refunds
	FindingEvent       FindingKind = "event"       // a payment and its events
	FindingSequence    FindingKind = "sequence"    // the log of events or the audit record has a gap or a repeat
	FindingPayable     FindingKind = "payable"     // what an account is to be paid and what was captured
	FindingPayout      FindingKind = "payout"      // a payout and what it pays
	FindingCounter     FindingKind = "counter"     // a budget or frequency and its payments
	FindingDelivery    FindingKind = "delivery"    // an event and its delivery to an endpoint
	FindingIndex       FindingKind = "index"       // an entry of an index and its object
	FindingQueue       FindingKind = "queue"       // an entry of a queue and its object
	FindingIdempotency FindingKind = "idempotency" // the record of a request and its payment
)

// FindingKinds lists them for metrics.
var FindingKinds = []FindingKind{
	FindingDamaged, FindingPayment, FindingEvent, FindingSequence, FindingPayable, FindingPayout, FindingCounter, FindingDelivery, FindingIndex, FindingQueue, FindingIdempotency,
}

// Finding is one inconsistency of what is stored. ID is that of the object, or
// the name of what has no id; Message is for people.
type Finding struct {
	Kind    FindingKind
	Object  string
	ID      string
	Message string
}

// Found makes a finding.
func Found(kind FindingKind, object, id, format string, args ...any) Finding {
	return Finding{kind, object, id, fmt.Sprintf(format, args...)}
}

// FoundDamage is the finding of an object that cannot be read; nil of any other
// error.
func FoundDamage(err error) []Finding {
	d := tollgate.DamageOf(err)
	if d == nil {
		return nil
	}
	return []Finding{Found(FindingDamaged, d.Object, d.ID, "it cannot be read: %v", err)}
}

// compare orders findings for people: by object, then by what is wrong.
func (f Finding) compare(other Finding) int {
	return cmp.Or(cmp.Compare(f.Object, other.Object), cmp.Compare(f.ID, other.ID), cmp.Compare(f.Kind, other.Kind), cmp.Compare(f.Message, other.Message))
}
