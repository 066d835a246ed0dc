package handlers_test

import (
	"strings"
	"testing"

	"tollgate"
	"tollgate/rediskv/record"
)

// checkTickets runs every evaluation of every ticket that a conversation has
// left behind again, bit for bit, also with versions that have been replaced or
// rolled back since. It returns how many tickets there are.
func (w *world) checkTickets(t *testing.T) (tickets int) {
	t.Helper()
	for key, text := range dump(t, w.redis) {
		ours := strings.Contains(key, w.vars["org"]) || strings.Contains(key, w.vars["other_org"])
		if !ours || !strings.Contains(key, ":tkt_") {
			continue
		}
		ticket := new(tollgate.Ticket)
		if err := record.DecodeAt(key, strings.TrimPrefix(text, "string "), ticket); err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		tickets++
		for _, e := range ticket.Evaluations {
			for _, ref := range e.Rules {
				w.stored(t, ref)
			}
		}
		w.reprice(ticket)
		total := tollgate.Money{Currency: ticket.Currency}
		for _, l := range ticket.Lines {
			total.Minor += l.Amount.Minor
		}
		if total != ticket.Total || len(ticket.Evaluations) == 0 {
			t.Errorf("%s: %d evaluations, lines that add up to %s, total %s", ticket.ID, len(ticket.Evaluations), total, ticket.Total)
		}
	}
	return tickets
}

// stored loads a module that one of the organizations has published.
func (w *world) stored(t *testing.T, ref tollgate.RuleRef) {
	t.Helper()
	if w.rules.Has(ref) {
		return
	}
	for _, org := range []string{"org", "other_org"} {
		module, err := w.store.Module(t.Context(), w.vars[org], ref)
		if err != nil {
			continue
		}
		loaded, err := w.rules.Load(t.Context(), ref.Rule, module)
		if must(t, loaded, err) != ref {
			t.Errorf("the module of %s is %s, not %s", ref.Rule, loaded.SHA256, ref.SHA256)
		}
		return
	}
	t.Errorf("nobody has the module of %s with SHA-256 %s", ref.Rule, ref.SHA256)
}
