package consistency

import (
	"slices"

	"tollgate"
)

// DeliveryRecords are a delivery and the places that its endpoint has it in, read at
// one moment.
type DeliveryRecords struct {
	ID       string
	Endpoint string
	Sequence int64              // of its event, in the endpoint's list; 0: it is not there
	Delivery *tollgate.Delivery // nil: it is gone
	Open     bool
	Queued   bool
}

// Check holds a delivery to its event, and its places to its state. stray says that
// it is among those that are open or queued, and should not be.
func (r *DeliveryRecords) Check() (list []Finding, stray bool) {
	found := func(kind FindingKind, format string, args ...any) {
		list = append(list, Found(kind, "delivery", r.ID, format, args...))
	}
	d := r.Delivery
	if d == nil {
		if r.Open || r.Queued {
			found(FindingQueue, "it is gone, and %s still has it to send", r.Endpoint)
			return list, true
		}
		return nil, false
	}
	if tollgate.DeliveryOf(d.EventID, r.Endpoint) != r.ID {
		found(FindingDelivery, "it is of %s, whose delivery to %s has another id", d.EventID, r.Endpoint)
	}
	switch waits := slices.Contains([]tollgate.DeliveryState{tollgate.DeliveryPending, tollgate.DeliverySending, tollgate.DeliveryRetrying}, d.State); {
	case waits && (!r.Open || !r.Queued):
		found(FindingQueue, "it is %s, and not among what %s has to send", d.State, r.Endpoint)
	case d.State == tollgate.DeliveryHeld && r.Queued:
		found(FindingQueue, "it is held, and %s has it to send", r.Endpoint)
		return list, false
	case !waits && d.State != tollgate.DeliveryHeld && (r.Open || r.Queued):
		found(FindingQueue, "it is %s, and %s still has it to send", d.State, r.Endpoint)
		return list, true
	}
	return list, false
}
