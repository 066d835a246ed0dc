package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/wasm"
)

// unproven are the changes that no re-execution can prove: of a member in any
// ticket, or in one.
var unproven = map[string]string{
	"merchant_account_id": "no rule sees it",
	"perimeter.id":        "a perimeter is configuration, which the ticket does not hold",
	"perimeter.version":   "as its id",
	"denied: perimeter.reason = amount_above_maximum": "one denial is as good as another, without the perimeter",

	"captured: evaluations[1].input.amount = 60.09": "the fee is rounded; 60.09 has the same, and less than the amount is captured",
	"captured: evaluations[2].input.amount = 30.09": "as above",

	"automatic: evaluations[1].at": "no rule sees the time; the creation's is created_at",
	"captured: evaluations[1].at":  "as above",
	"captured: evaluations[2].at":  "as above",

	"rejected: event_ids[1] =":       "a step that priced nothing has left its event, and no more",
	"approved: event_ids[1] =":       "as above",
	"captured: event_ids[3] =":       "as above",
	"captured: event_ids[3] removed": "as above",
	"rejected: decision = allow":     "somebody's decision has left its event, and no more",
	"rejected: decision = review":    "as above; it may have been canceled instead",
	"approved: decision = deny":      "as above",
	"approved: decision = review":    "as above",
}

// ticketMaker makes tickets as the service makes them.
type ticketMaker struct {
	t     *testing.T
	shelf *moduleShelf
	rules []tollgate.RuleRef
	ids   int

	records map[string]*paymentRecords // by payment
}

// keep adds what a change leaves to the payment's records, as a client reads it.
func (m *ticketMaker) keep(c *tollgate.PaymentChange) {
	m.t.Helper()
	r, ok := m.records[c.Payment.ID]
	if !ok {
		r = &paymentRecords{Transactions: []tollgate.Transaction{}, Events: map[string]paymentEvent{}}
		m.records[c.Payment.ID] = r
	}
	text := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			m.t.Fatal(err)
		}
		return text
	}
	read := func(v, into any) {
		if err := json.Unmarshal(text(v), into); err != nil {
			m.t.Fatal(err)
		}
	}
	r.Payment = new(tollgate.Payment)
	read(c.Payment, r.Payment)
	for _, x := range c.Transactions {
		var again tollgate.Transaction
		read(x, &again)
		r.Transactions = append(r.Transactions, again)
	}
	var event paymentEvent
	read(c.Event, &event)
	r.Events[c.Event.ID] = event
}

func (m *ticketMaker) newID(prefix string) string {
	m.ids++
	return fmt.Sprintf("%s%026d", prefix, m.ids)
}

func (m *ticketMaker) origin() tollgate.Origin {
	return tollgate.Origin{Organization: "org_1", At: tollgate.At(time.Unix(1_790_000_000+int64(m.ids), 0))}
}

func (m *ticketMaker) priced(minor int64, capture uint32) tollgate.Pricing {
	in := tollgate.PricingInput{Amount: tollgate.Money{Minor: minor, Currency: "EUR"}, Payee: "shop.example", CaptureIndex: capture}
	lines, err := m.shelf.engine.Quote(nil, m.rules, in)
	if err != nil {
		m.t.Fatal(err)
	}
	return tollgate.Pricing{Input: in, Rules: m.rules, Lines: lines}
}

func (m *ticketMaker) create(d tollgate.PerimeterDecision, method tollgate.CaptureMethod) *tollgate.PaymentChange {
	m.t.Helper()
	d.ID, d.Version = "per_1", 3
	captured := m.priced(10_000, 1)
	c, err := tollgate.CreatePayment(m.newID, m.origin(), tollgate.NewPayment{
		MerchantAccountID: "ma_1", Amount: captured.Input.Amount, Payee: "shop.example", CaptureMethod: method, CaptureWindowHours: 168,
	}, d, m.priced(10_000, 0), &captured)
	if err != nil {
		m.t.Fatal(err)
	}
	m.keep(c)
	return c
}

func (m *ticketMaker) capture(c *tollgate.PaymentChange, minor int64, index uint32) {
	m.t.Helper()
	priced := m.priced(minor, index)
	change, err := tollgate.CapturePayment(m.newID, m.origin(), c.Payment, c.Ticket, tollgate.CaptureRequest{Amount: priced.Input.Amount}, priced)
	if err != nil {
		m.t.Fatal(err)
	}
	m.keep(change)
}

func (m *ticketMaker) move(c *tollgate.PaymentChange, trigger tollgate.Trigger) {
	m.t.Helper()
	change, err := tollgate.TransitionPayment(m.newID, m.origin(), c.Payment, c.Ticket, trigger, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	m.keep(change)
}

// tickets are one of each way that a payment can go.
func (m *ticketMaker) tickets() map[string]*tollgate.Ticket {
	all := map[string]*tollgate.Ticket{}
	allow := tollgate.PerimeterDecision{Decision: tollgate.DecisionAllow}
	all["authorized"] = m.create(allow, tollgate.CaptureManual).Ticket
	all["automatic"] = m.create(allow, tollgate.CaptureAutomatic).Ticket
	all["denied"] = m.create(tollgate.PerimeterDecision{Decision: tollgate.DecisionDeny, Reason: tollgate.ReasonPayeeBlocked}, tollgate.CaptureManual).Ticket
	review := tollgate.PerimeterDecision{Decision: tollgate.DecisionReview, Reason: tollgate.ReasonAmountNeedsReview}
	all["waiting"] = m.create(review, tollgate.CaptureManual).Ticket
	rejected := m.create(review, tollgate.CaptureManual)
	m.move(rejected, tollgate.TriggerReject)
	all["rejected"] = rejected.Ticket
	approved := m.create(review, tollgate.CaptureManual)
	m.move(approved, tollgate.TriggerApprove)
	all["approved"] = approved.Ticket
	captured := m.create(allow, tollgate.CaptureManual)
	m.capture(captured, 6_000, 1)
	m.capture(captured, 3_000, 2)
	m.move(captured, tollgate.TriggerCancel)
	all["captured"] = captured.Ticket
	return all
}

func newTicketMaker(t *testing.T) *ticketMaker {
	t.Helper()
	engine, err := wasm.NewEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close(context.Background()) })
	shelf, err := newShelf(t.Context(), engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &ticketMaker{t: t, shelf: shelf, records: map[string]*paymentRecords{}}
	for _, c := range []tollgate.Citation{{Name: "card_fee", Version: 2}, {Name: "platform_fee", Version: 1}} {
		m.rules = append(m.rules, wasm.RefOf(c, clitest.BuiltinModule(t, c)))
	}
	return m
}

func (m *ticketMaker) verify(document any, b *binding) (string, error) {
	m.t.Helper()
	text, err := json.Marshal(document, json.Deterministic(true))
	if err != nil {
		m.t.Fatal(err)
	}
	ticket := new(tollgate.Ticket)
	if err := json.Unmarshal(text, ticket); err != nil {
		return "", err
	}
	a, stdout, _ := clitest.App(nil)
	p, err := prove(m.t.Context(), ticket, m.shelf, b)
	if err != nil {
		return "", err
	}
	err = errors.Join(p.print(a), p.verdict())
	return stdout.String(), err
}

// document is the JSON of v, to be spoiled.
func (m *ticketMaker) document(v any) (document any) {
	m.t.Helper()
	text, err := json.Marshal(v, json.Deterministic(true))
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return document
}

// TestVerifyNoticesEveryMember changes every member of tickets, one at a time:
// of those in files, and of those that are compared with the records, where
// none is left unproven.
func TestVerifyNoticesEveryMember(t *testing.T) {
	m := newTicketMaker(t)
	seen := map[string]bool{}
	for name, ticket := range m.tickets() {
		document, records := m.document(ticket), m.records[ticket.PaymentID]
		alone, bound := &binding{why: "it is a file"}, &binding{records: records}
		if out, err := m.verify(document, alone); err != nil || !strings.Contains(out, "\nok: ") || !strings.Contains(out, "not fully compared") {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		if out, err := m.verify(document, bound); err != nil || !strings.Contains(out, "\nok: ") || strings.Contains(out, "not fully compared") {
			t.Fatalf("%s, with its records: %v\n%s", name, err, out)
		}
		changes := 0
		spoil(document, func(v any) { document = v }, "", func(path, how string) {
			changes++
			out, err := m.verify(document, alone)
			listed := false
			for _, key := range []string{path, name + ": " + path, name + ": " + path + " " + how[:1], name + ": " + path + " " + how} {
				if _, ok := unproven[key]; ok {
					listed, seen[key] = true, true
				}
			}
			switch {
			case err == nil && !listed:
				t.Errorf("%s: %s %s, and verify says\n%s", name, path, how, out)
			case err != nil && listed:
				t.Errorf("%s: %s %s is noticed, and listed as what is not: %v", name, path, how, err)
			case (err == nil) != strings.Contains(out, "\nok: "):
				t.Errorf("%s: %s %s: %v, and verify prints\n%s", name, path, how, err, out)
			}
			if out, err := m.verify(document, bound); err == nil {
				t.Errorf("%s, with its records: %s %s, and verify says\n%s", name, path, how, out)
			}
		})
		if changes < 50 {
			t.Errorf("%s: only %d changes", name, changes)
		}
	}
	for key := range unproven {
		if !seen[key] {
			t.Errorf("%s is in no ticket", key)
		}
	}
}

// bound are the members of records that the ticket answers for.
var bound = map[string][]string{
	"payment": {
		"id", "ticket_id", "merchant_account_id", "amount", "currency", "payee", "created_at", "fee_total", "amount_captured",
		"perimeter.id", "perimeter.version", "perimeter.decision", "perimeter.reason",
	},
	"authorization": {"type", "payment_id", "ticket_id", "merchant_account_id", "amount", "currency", "payee", "created_at"},
	"capture":       {"type", "payment_id", "ticket_id", "merchant_account_id", "amount", "currency", "payee", "created_at", "capture_id"},
	"fee":           {"type", "amount", "capture_id"},
	"release":       {},
	"event": {
		"data.payment_id", "data.ticket_id", "data.merchant_account_id", "data.currency", "data.payee",
		"data.perimeter.id", "data.perimeter.version", "data.perimeter.decision", "data.perimeter.reason",
	},
	"event of an evaluation": {"created_at", "data.amount"},
	"event of a capture":     {"type", "created_at", "data.amount", "data.capture_id", "data.fee_total", "data.amount_captured"},
}

// TestVerifyNoticesEveryRecord changes the payment, its transactions and its
// events instead, and leaves each out.
func TestVerifyNoticesEveryRecord(t *testing.T) {
	m := newTicketMaker(t)
	for name, ticket := range m.tickets() {
		document, kept := m.document(ticket), m.records[ticket.PaymentID]
		changes := 0
		noticed := func(what string, r paymentRecords) {
			changes++
			if out, err := m.verify(document, &binding{records: &r}); err == nil {
				t.Errorf("%s: %s, and verify says\n%s", name, what, out)
			}
		}
		// try changes the bound members of a record; with makes records of it.
		try := func(kind string, v any, with func(text []byte) (paymentRecords, error)) {
			spoiled := m.document(v)
			spoil(spoiled, func(any) {}, "", func(path, how string) {
				if !slices.Contains(bound[kind], path) {
					return
				}
				text, err := json.Marshal(spoiled)
				if err != nil {
					t.Fatal(err)
				}
				if r, err := with(text); err == nil { // else nobody could read it
					noticed(kind+": "+path+" "+how, r)
				}
			})
		}
		try("payment", kept.Payment, func(text []byte) (r paymentRecords, err error) {
			r = *kept
			r.Payment = new(tollgate.Payment)
			return r, json.Unmarshal(text, r.Payment)
		})
		for i, x := range kept.Transactions {
			try(string(x.Type), x, func(text []byte) (r paymentRecords, err error) {
				r = *kept
				r.Transactions = slices.Clone(kept.Transactions)
				r.Transactions[i] = tollgate.Transaction{}
				return r, json.Unmarshal(text, &r.Transactions[i])
			})
			if r := *kept; x.Type != tollgate.TransactionRelease {
				r.Transactions = slices.Delete(slices.Clone(kept.Transactions), i, i+1)
				noticed("no "+string(x.Type), r)
				r.Transactions = append(slices.Clone(kept.Transactions), x)
				noticed("twice the "+string(x.Type), r)
			}
		}
		for id, e := range kept.Events {
			with := func(text []byte) (r paymentRecords, err error) {
				r = *kept
				r.Events = maps.Clone(kept.Events)
				var event paymentEvent
				err = json.Unmarshal(text, &event)
				r.Events[id] = event
				return r, err
			}
			try("event", e, with)
			if slices.ContainsFunc(ticket.Evaluations, func(e tollgate.Evaluation) bool { return e.EventID == id }) {
				try("event of an evaluation", e, with)
			}
			if e.Type == tollgate.PaymentCaptured {
				try("event of a capture", e, with)
			}
			r := *kept
			r.Events = maps.Clone(kept.Events)
			delete(r.Events, id)
			noticed("no "+string(e.Type), r)
			r.EventsExpired = true
			if out, err := m.verify(document, &binding{records: &r}); err != nil {
				t.Errorf("%s: when the event %s is no longer kept: %v\n%s", name, e.Type, err, out)
			}
		}
		if changes < 40 {
			t.Errorf("%s: only %d changes", name, changes)
		}
	}
}

// spoil changes a JSON value in one place after another and puts it back.
func spoil(value any, set func(any), path string, try func(path, how string)) {
	change := func(to any, how string) {
		set(to)
		try(path, how)
		set(value)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			spoil(v[name], func(to any) { v[name] = to }, strings.TrimPrefix(path+"."+name, "."), try)
		}
	case []any:
		list := path
		for i := range v {
			path = fmt.Sprintf("%s[%d]", list, i)
			spoil(v[i], func(to any) { v[i] = to }, path, try)
			change(slices.Delete(slices.Clone(v), i, i+1), "removed")
			change(slices.Insert(slices.Clone(v), i, v[i]), "twice")
			if i > 0 {
				other := slices.Clone(v)
				other[i-1], other[i] = v[i], v[i-1]
				change(other, "before the last")
			}
		}
	case float64:
		change(v+1, "one more")
		change(v+7, "seven more")
	default:
		name := path[strings.LastIndexByte(path, '.')+1:]
		was, _ := v.(string)
		for _, to := range variants(name, was) {
			if to != was {
				change(to, "= "+to)
			}
		}
	}
}

// variants are other values of a member that can be read.
func variants(name, was string) []string {
	switch name {
	case "amount", "total", "fee_total", "amount_captured":
		return []string{"0.00", "0.01", was[:len(was)-1] + "9"}
	case "currency":
		return []string{"USD"}
	case "decision":
		return []string{"allow", "deny", "review", "other"}
	case "kind":
		return []string{"authorization", "review", "capture", "other"}
	case "reason":
		return []string{"", "amount_above_maximum", "amount_needs_review"}
	case "rule":
		return []string{"rule:card_fee@v1", "rule:card_fee@v2", "rule:other@v1"}
	case "type":
		return []string{"authorization", "capture", "fee", "payment.released", "payment.captured"}
	case "at", "created_at":
		return []string{"2026-11-21T22:58:28.760Z"}
	}
	return []string{was + "0", ""}
}
