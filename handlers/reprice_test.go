package handlers_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/wasm"
)

// TestTicketsAgain runs every evaluation of random payments and captures again
// through the engine: the modules cited, on the input kept, give the lines that
// were charged, and a quote's digest is that of the evaluation.
func TestTicketsAgain(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		account := []string{"eur", "wide"}[n%2]
		currencies := w.account(account).Currencies
		c := currencies[random.IntN(len(currencies))]
		amount := tollgate.Money{Minor: 1 + random.Int64N(pow10(1+random.IntN(15))-1), Currency: c}
		input := fmt.Sprintf(`{"merchant_account_id":%q,"amount":%q,"currency":%q,"payee":"shop%d.example"}`, w.vars[account], amount, c, n%3)
		quote := w.want(w.call("POST", "/v1/quotes", input), 200, "")
		payment := w.want(w.pay(fmt.Sprint(n), input), 201, "")
		id := w.get(payment, "id")
		if w.get(payment, "status") == "requires_review" {
			w.want(w.call("POST", "/v1/payments/"+id+"/reviews", `{"decision":"approve"}`), 200, "")
		}
		rest := amount.Minor
		for rest > 0 && random.IntN(4) > 0 {
			part := tollgate.Money{Minor: 1 + random.Int64N(rest), Currency: c}
			final := random.IntN(3) == 0
			w.want(w.call("POST", "/v1/payments/"+id+"/captures", fmt.Sprintf(`{"amount":%q,"final_capture":%t}`, part, final)), 201, "")
			rest -= part.Minor
			if final {
				break
			}
		}
		r := w.want(w.call("GET", "/v1/tickets/"+w.get(payment, "ticket_id"), ""), 200, "")
		ticket := new(tollgate.Ticket)
		must(t, ticket, json.Unmarshal([]byte(r.text), ticket))
		if ticket.Evaluations[0].LinesSHA256 != quote.body["digest"] {
			t.Errorf("%s %s: quoted %v, charged %s", amount, c, quote.body["digest"], ticket.Evaluations[0].LinesSHA256)
		}
		w.reprice(ticket)
		after := w.call("GET", "/v1/payments/"+id, "")
		if after.body["fee_total"] != ticket.Total.String() {
			t.Errorf("%s: fee_total %v, the ticket's total %s", id, after.body["fee_total"], ticket.Total)
		}
	}
}

// reprice runs a ticket's evaluations again.
func (w *world) reprice(ticket *tollgate.Ticket) {
	w.t.Helper()
	for _, problem := range wasm.Inconsistencies(ticket) {
		w.t.Errorf("%s: %s", ticket.ID, problem)
	}
	var lines []tollgate.TicketLine
	for i, e := range ticket.Evaluations {
		again, err := w.rules.Quote(nil, e.Rules, e.Pricing())
		must(w.t, again, err)
		if digest := tollgate.LinesSHA256(again); digest != e.LinesSHA256 || e.Number != i+1 {
			w.t.Errorf("%s, evaluation %d of %s %s: %s, again %s", ticket.ID, e.Number, e.Input.Amount, e.Input.Currency, e.LinesSHA256, digest)
		}
		if e.Kind == tollgate.EvaluationCapture && int(e.Input.CaptureIndex) == 1 {
			lines = nil // from the first capture on the lines are the captures'
		}
		for _, l := range again {
			lines = append(lines, tollgate.TicketLine{Label: l.Label, Amount: l.Amount, Rule: l.Rule, Evaluation: e.Number})
		}
	}
	if !slices.Equal(lines, ticket.Lines) {
		w.t.Errorf("%s: the lines are %v, again %v", ticket.ID, ticket.Lines, lines)
	}
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

// TestExactAmounts judges amounts by math/big, over HTTP, in currencies of
// every exponent and of every size up to 15 digits: what is printed, what is
// left, what is charged.
func TestExactAmounts(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(3, 4))
	// Currencies in which the rules of this account charge percentages alone:
	// 2.90 % and 0.85 %, each line rounded half to even.
	for exponent, currency := range map[int]string{0: "PYG", 2: "MAD", 3: "TND", 4: "UYW"} {
		for digits := 1; digits <= 15; digits++ {
			amount := big.NewInt(pow10(digits-1) + random.Int64N(9*pow10(digits-1)))
			switch digits {
			case 14: // 10^14 and its neighbours are where text and numbers part in Lua
				amount.SetInt64(pow10(14) - 1)
			case 15:
				amount.SetInt64(pow10(14) + random.Int64N(9*pow10(14)))
			}
			printed := decimalText(amount, exponent)
			body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":%q,"currency":%q,"payee":"p"}`, w.vars["wide"], printed, currency)
			p := w.want(w.pay(currency+fmt.Sprint(digits), body), 201, "")
			id := w.get(p, "id")
			w.wantAmounts(p, map[string]*big.Int{"amount": amount, "amount_capturable": amount, "fee_total": fees(amount)}, exponent)
			part := new(big.Int).SetInt64(1 + random.Int64N(amount.Int64()))
			capture := w.want(w.call("POST", "/v1/payments/"+id+"/captures", fmt.Sprintf(`{"amount":%q,"final_capture":false}`, decimalText(part, exponent))), 201, "")
			w.wantAmounts(capture, map[string]*big.Int{"amount": part, "fee_total": fees(part)}, exponent)
			rest := new(big.Int).Sub(amount, part)
			read := w.want(w.call("GET", "/v1/payments/"+id, ""), 200, "")
			w.wantAmounts(read, map[string]*big.Int{"amount": amount, "amount_capturable": rest, "amount_captured": part, "amount_released": new(big.Int)}, exponent)
			if rest.Sign() > 0 {
				canceled := w.want(w.call("POST", "/v1/payments/"+id+"/cancel", ""), 200, "")
				w.wantAmounts(canceled, map[string]*big.Int{"amount_captured": part, "amount_released": rest, "amount_capturable": new(big.Int)}, exponent)
			}
			sums := map[string]*big.Int{"authorization": amount, "capture": part, "fee": fees(part), "release": rest}
			for _, row := range w.call("GET", "/v1/transactions?limit=100&payment_id="+id, "").body["data"].([]any) {
				transaction := row.(map[string]any)
				kind := transaction["type"].(string)
				if have, want := transaction["amount"], decimalText(sums[kind], exponent); have != want {
					t.Errorf("%s of %s %s is %v, want %s", kind, printed, currency, have, want)
				}
				delete(sums, kind)
			}
			for kind, sum := range sums { // nothing moved, no transaction
				if sum.Sign() != 0 {
					t.Errorf("%s %s has no transaction of type %s", printed, currency, kind)
				}
			}
		}
	}
}

func (w *world) wantAmounts(r reply, want map[string]*big.Int, exponent int) {
	w.t.Helper()
	for name, amount := range want {
		if have, text := w.get(r, name), decimalText(amount, exponent); have != text {
			w.t.Errorf("%s is %s, want %s: %.300s", name, have, text, r.text)
		}
	}
}

// decimalText prints an amount in minor units with all its places.
func decimalText(minor *big.Int, exponent int) string {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exponent)), nil)
	return new(big.Rat).SetFrac(minor, scale).FloatString(exponent)
}

// fees is 2.90 % and 0.85 %, each rounded half to even.
func fees(amount *big.Int) *big.Int {
	return new(big.Int).Add(share(amount, 290), share(amount, 85))
}

func share(amount *big.Int, basisPoints int64) *big.Int {
	product := new(big.Int).Mul(amount, big.NewInt(basisPoints))
	whole, rest := new(big.Int).QuoRem(product, big.NewInt(10_000), new(big.Int))
	if half := rest.Cmp(big.NewInt(5_000)); half > 0 || (half == 0 && whole.Bit(0) == 1) {
		whole.Add(whole, big.NewInt(1))
	}
	return whole
}
