package payments

import "tollgate"

// ErasedField is that of a payment's hash which says since when it is erased.
const ErasedField = "era"

// Erase takes whom a payment was for out of all that belongs to it; false where that was done
// before.
func (a *Archived) Erase(at tollgate.Instant) bool {
	if a.Ticket.ErasedAt != 0 {
		return false
	}
	p := &a.Payment
	p.Payee, p.Reference, p.Description, p.Metadata, p.ErasedAt = "", nil, nil, nil, at
	EraseTicket(&a.Ticket, at)
	for i := range a.Transactions {
		t := &a.Transactions[i].Transaction
		t.Payee, t.Reference = nil, nil
	}
	for i := range a.Captures {
		EraseCapture(&a.Captures[i])
	}
	return true
}

// EraseTicket takes the payee out of a ticket, and out of the inputs of its evaluations: their
// lines cannot be computed again after that.
func EraseTicket(t *tollgate.Ticket, at tollgate.Instant) {
	t.Payee, t.ErasedAt = "", at
	for i := range t.Evaluations {
		t.Evaluations[i].Input.Payee = ""
	}
}

// EraseCapture takes reference and metadata out of a capture.
func EraseCapture(c *tollgate.Capture) { c.Reference, c.Metadata = nil, nil }
