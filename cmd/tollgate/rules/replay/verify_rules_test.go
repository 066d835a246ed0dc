package replay

import (
	"strings"
	"testing"

	"tollgate"
)

// TestVerifyNoticesOtherRules: a capture is priced with the rules of its
// creation, also where its lines are what other rules give.
func TestVerifyNoticesOtherRules(t *testing.T) {
	m := newTicketMaker(t)
	c := m.create(tollgate.PerimeterDecision{Decision: tollgate.DecisionAllow}, tollgate.CaptureManual)
	m.rules = m.rules[:1]
	m.capture(c, 6_000, 1)
	for what, b := range map[string]*binding{"alone": {why: "it is a file"}, "with its records": {records: m.records[c.Payment.ID]}} {
		if out, err := m.verify(m.document(c.Ticket), b); err == nil || !strings.Contains(err.Error(), "evaluation 2 cites other rules") {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}
