package replay

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

const refundSource = "label = \"Back\"\nrefunds = true\n[refund]\n[[refund.fee]]\npercentage = \"2\"\n"

// refund adds a refund to a ticket, priced by all rules that take part in it.
func (m *ticketMaker) refund(c *tollgate.PaymentChange, minor int64) {
	m.t.Helper()
	taking, err := m.shelf.engine.Refunding(m.rules)
	if err != nil {
		m.t.Fatal(err)
	}
	in := tollgate.PricingInput{Amount: tollgate.Money{Minor: minor, Currency: "EUR"}, Payee: "shop.example", Refund: true}
	lines, err := m.shelf.engine.Quote(nil, taking, in)
	if err != nil {
		m.t.Fatal(err)
	}
	id := m.newID(tollgate.PrefixEvent)
	c.Ticket.Evaluate(tollgate.EvaluationRefund, in, taking, lines, id, m.origin().At)
	c.Ticket.Refer(id)
}

// refundedTicket is of a payment that was captured in part, refunded, captured
// again, released, and refunded once more. Two of its four rules take part in
// refunds; one of them charges for nothing else.
func refundedTicket(t *testing.T) (*ticketMaker, *tollgate.Ticket, []byte) {
	t.Helper()
	m := newTicketMaker(t)
	module, _, err := compiler.Build([]byte(refundSource))
	if err != nil {
		t.Fatal(err)
	}
	back, err := m.shelf.engine.Load(t.Context(), tollgate.Citation{Name: "back_fee", Version: 1}, module)
	if err != nil {
		t.Fatal(err)
	}
	sandbox := tollgate.Citation{Name: "sandbox", Version: 2}
	m.rules = append(m.rules, back, wasm.RefOf(sandbox, clitest.BuiltinModule(t, sandbox)))
	c := m.create(tollgate.PerimeterDecision{Decision: tollgate.DecisionAllow}, tollgate.CaptureManual)
	m.capture(c, 6_000, 1)
	m.refund(c, 4_000)
	m.capture(c, 3_000, 2)
	m.move(c, tollgate.TriggerCancel)
	m.refund(c, 4_900)
	return m, c.Ticket, module
}

// TestVerifyNoticesEveryMemberOfRefunds changes every member of a ticket with
// refunds, one at a time.
func TestVerifyNoticesEveryMemberOfRefunds(t *testing.T) {
	// What no re-execution can prove, besides what that is true of anyway.
	unproven := []string{
		"merchant_account_id", "perimeter.id", "perimeter.version", // as of any ticket
		"evaluations[1].at", "evaluations[2].at", "evaluations[3].at", "evaluations[4].at",
		"evaluations[1].input.amount = 60.09", "evaluations[2].input.amount = 40.09", // the fee is rounded
		"evaluations[3].input.amount = 30.09", "evaluations[4].input.amount = 49.09",
		"event_ids[4] =", "event_ids[4] removed", "event_ids[5] before the last", // of the release, which priced nothing
	}
	m, ticket, _ := refundedTicket(t)
	document, alone := m.document(ticket), &binding{why: "it is a file"}
	out, err := m.verify(document, alone)
	if err != nil || !strings.Contains(out, "\nok: 5 evaluations agree") {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "\nevaluation 3  refund of 40.00 EUR\n  rule:back_fee@v1  "; !strings.Contains(out, want) || !strings.Contains(out, "=  Back          0.80   0.80  rule:back_fee@v1") {
		t.Errorf("it prints\n%s", out)
	}
	changes := 0
	spoil(document, func(v any) { document = v }, "", func(path, how string) {
		changes++
		listed := slices.ContainsFunc(unproven, func(u string) bool { return u == path || strings.HasPrefix(path+" "+how, u) })
		out, err := m.verify(document, alone)
		if (err == nil) != listed {
			t.Errorf("%s %s: %v\n%s", path, how, err, out)
		}
	})
	if changes < 200 {
		t.Errorf("only %d changes", changes)
	}
}

// TestVerifyKnowsWhoTakesPart: a refund that left out a rule is as wrong as one
// that a foreign rule priced, though each gives its lines again.
func TestVerifyKnowsWhoTakesPart(t *testing.T) {
	m, ticket, _ := refundedTicket(t)
	refund := &ticket.Evaluations[4]
	for what, k := range map[string]struct {
		rules []tollgate.RuleRef
		want  string
	}{
		"one left out":           {refund.Rules[:1], "evaluation 5 does not cite the rules of evaluation 1 that take part in refunds, 2 of 4"},
		"one that takes no part": {m.rules[1:], "evaluation 5 does not cite the rules of evaluation 1 that take part in refunds, 2 of 4"},
		"none":                   {nil, "evaluation 5 does not cite the rules of evaluation 1 that take part in refunds, 2 of 4"},
	} {
		made := *ticket
		made.Evaluations, made.Lines = slices.Clone(ticket.Evaluations), nil
		e := &made.Evaluations[4]
		lines, err := m.shelf.engine.Quote(nil, k.rules, e.Pricing())
		if err != nil {
			t.Fatal(err)
		}
		e.Rules, e.LinesSHA256 = k.rules, tollgate.LinesSHA256(lines)
		made.Total = tollgate.Money{Currency: "EUR"}
		for _, l := range ticket.Lines {
			if l.Evaluation < 5 {
				made.Lines = append(made.Lines, l)
			}
		}
		for _, l := range lines {
			made.Lines = append(made.Lines, tollgate.TicketLine{Label: l.Label, Amount: l.Amount, Rule: l.Rule, Evaluation: 5})
		}
		for _, l := range made.Lines {
			made.Total.Minor += l.Amount.Minor
		}
		if out, err := m.verify(m.document(&made), &binding{}); err == nil || err.Error() != k.want {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

// TestBacktestOfRefunds: refunds are a kind of their own, and a candidate that
// takes part in them is run for those in which the rule before it did not.
func TestBacktestOfRefunds(t *testing.T) {
	_, ticket, module := refundedTicket(t)
	dir := t.TempDir()
	line, err := json.Marshal(ticket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "back.wasm"), module, 0o600); err != nil {
		t.Fatal(err)
	}
	candidate := filepath.Join(dir, "rule.toml")
	if err := os.WriteFile(candidate, []byte("label = \"New\"\nrefunds = true\n[[fee]]\npercentage = \"1\"\n[refund]\n[[refund.fee]]\npercentage = \"5\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for against, want := range map[string]string{
		"rule:back_fee@v1": "EUR refund 2 0 2 0 0 2.28 4.95 +2.67", // 1.78 and twice 0.25 of the sandbox
		"rule:card_fee@v2": "EUR refund 2 0 2 0 0 2.28 6.73 +4.45", // it took no part
	} {
		code, out, errs := clitest.Inside(context.Background(), commands, nil, bytes.NewReader(line), "rule", "backtest", candidate, "--against", against, "--tickets", "-", "--modules", dir)
		if plain := strings.Join(strings.Fields(out), " "); code != 0 || !strings.Contains(plain, want) {
			t.Errorf("%s: exit %d\n%s%s, want %s", against, code, out, errs, want)
		}
	}
}

// TestDemoTakesPartInRefunds: one account of the sandbox has refunds that cost a
// fee, the other has the rules that it always had.
func TestDemoTakesPartInRefunds(t *testing.T) {
	engine, err := wasm.NewEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close(context.Background())
	if err := engine.LoadBuiltin(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := sandbox.Config("{}", "{}")
	for _, account := range config.MerchantAccounts {
		var refs []tollgate.RuleRef
		for _, c := range account.RuleSet.Rules {
			refs = append(refs, wasm.RefOf(c, clitest.BuiltinModule(t, c)))
		}
		in := tollgate.PricingInput{Amount: tollgate.Money{Minor: 10_000, Currency: "USD"}, Payee: "shop.example"}
		paid, err := engine.Quote(nil, refs, in)
		if err != nil || fmt.Sprint(paid) != "[{Card fee 2.15 rule:card_fee@v2} {Platform fee 0.10 rule:platform_fee@v1}]" {
			t.Errorf("%s: a payment costs %v, %v", account.Name, paid, err)
		}
		in.Refund = true
		refunded, err := engine.Quote(nil, refs, in)
		want := map[string]string{"Europe": "[]", "North America": "[{Refund fee 0.25 rule:sandbox@v2}]"}[account.Name]
		if err != nil || fmt.Sprint(refunded) != want {
			t.Errorf("%s: a refund costs %v, %v, want %s", account.Name, refunded, err, want)
		}
		if !slices.ContainsFunc(config.RuleSets, func(s tollgate.RuleSet) bool { return s.ID == account.RuleSet.ID }) {
			t.Errorf("%s: its rule set is not configured", account.Name)
		}
	}
}
