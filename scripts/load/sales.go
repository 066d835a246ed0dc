package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"tollgate"
)

// payees are as many as the marketplace has. Zipf's law gives the greatest 5 % of the
// payments, and the last tens of thousands a handful each.
const payees = 50_000

// sales makes payments up.
type sales struct {
	random *rand.Rand
	payee  *rand.Zipf
	shops  []shop
	made   int
}

func newSales(seed uint64, list []shop) *sales {
	random := rand.New(rand.NewPCG(seed, 0))
	return &sales{random: random, payee: rand.NewZipf(random, 1.05, 2.5, payees-1), shops: list}
}

// sale is a payment and what becomes of it.
type sale struct {
	body   string
	review string // the decision about it, if the perimeter asks for one; empty: nobody decides
	later  []step
}

// paymentBody is that of POST /v1/payments.
type paymentBody struct {
	Account     string            `json:"merchant_account_id"`
	Amount      tollgate.Money    `json:"amount"`
	Currency    tollgate.Currency `json:"currency"`
	Payee       string            `json:"payee"`
	Method      string            `json:"capture_method"`
	Reference   string            `json:"reference,omitempty"`
	Description string            `json:"description,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// next is another payment: of 100, 90 are captured, 4 of them refunded, 4 canceled, and
// 4 forgotten, which expire.
func (s *sales) next() (*sale, error) {
	s.made++
	shop := s.shops[pick(s.random, s.shops, func(s shop) float64 { return s.weight })]
	currency := shop.currencies[pick(s.random, shop.currencies, func(c currency) float64 { return c.weight })]
	body := paymentBody{
		Account: shop.id, Amount: s.amount(currency), Currency: currency.code, Payee: payeeName(int(s.payee.Uint64())),
		Method: string(tollgate.CaptureManual),
	}
	s.annotate(&body)
	made := &sale{review: "approve"}
	switch fate := s.random.Float64(); {
	case fate < 0.61:
		body.Method = string(tollgate.CaptureAutomatic)
	case fate < 0.88:
		made.later = []step{{path: "/captures", body: `{}`, delay: s.delay(time.Minute, 4*24*time.Hour)}}
	case fate < 0.91:
		made.later = s.parts(body.Amount)
	case fate < 0.95:
		made.later = []step{{path: "/cancel", body: `{"reason":"Out of stock"}`, delay: s.delay(time.Minute, 2*24*time.Hour)}}
	case fate < 0.992: // forgotten
	default:
		body.Payee = "deny.test"
	}
	if fate := s.random.Float64(); fate < 0.05 {
		made.review = "reject"
	} else if fate < 0.1 {
		made.review = ""
	}
	captured := body.Method == string(tollgate.CaptureAutomatic) || len(made.later) > 0 && made.later[0].path == "/captures"
	if captured && s.random.Float64() < 0.045 {
		made.later = append(made.later, s.refund(body.Amount))
	}
	text, err := json.Marshal(body)
	made.body = string(text)
	return made, err
}

// annotate gives most payments a reference of their own, and many metadata.
func (s *sales) annotate(body *paymentBody) {
	if s.random.Float64() < 0.8 {
		body.Reference = reference(s.made)
	}
	if s.random.Float64() < 0.3 {
		body.Description = []string{"Order in the shop", "Subscription, monthly", "Delivery and service", "Gift card"}[s.random.IntN(4)]
	}
	if s.random.Float64() < 0.6 {
		body.Metadata = map[string]string{
			"channel": []string{"web", "app", "pos"}[s.random.IntN(3)], "cart": fmt.Sprintf("%016x", s.random.Uint64()),
		}
	}
}

// reference is that of a payment by its number.
func reference(n int) string { return fmt.Sprintf("order-%09d", n) }

// amount is about 35 euros, seldom a thousand, as much in other currencies.
func (s *sales) amount(c currency) tollgate.Money {
	euros := math.Exp(math.Log(35) + 1.1*s.random.NormFloat64())
	minor := euros * c.scale * math.Pow10(c.code.Exponent())
	return tollgate.Money{Minor: max(1, int64(min(minor, 1e9))), Currency: c.code}
}

// parts captures a payment in two steps.
func (s *sales) parts(amount tollgate.Money) []step {
	if amount.Minor < 2 {
		return []step{{path: "/captures", body: `{}`, delay: time.Hour}}
	}
	first := tollgate.Money{Minor: amount.Minor / 2, Currency: amount.Currency}
	at := s.delay(time.Minute, 2*24*time.Hour)
	return []step{
		{path: "/captures", body: fmt.Sprintf(`{"amount":%q,"final_capture":false}`, first), delay: at},
		{path: "/captures", body: `{}`, delay: at + s.delay(time.Hour, 3*24*time.Hour)},
	}
}

// refund gives back all of a payment, or a third.
func (s *sales) refund(amount tollgate.Money) step {
	r := step{path: "/refunds", body: `{"reason":"Returned"}`, delay: 5*24*time.Hour + s.delay(time.Hour, 15*24*time.Hour)}
	if third := (tollgate.Money{Minor: amount.Minor / 3, Currency: amount.Currency}); third.Minor > 0 && s.random.IntN(2) == 0 {
		r.body = fmt.Sprintf(`{"amount":%q,"reason":"Damaged"}`, third)
	}
	return r
}

func (s *sales) delay(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

// pick draws the number of one of a list.
func pick[T any](random *rand.Rand, list []T, weight func(T) float64) int {
	var sum float64
	for _, one := range list {
		sum += weight(one)
	}
	at := random.Float64() * sum
	for i, one := range list {
		if at -= weight(one); at < 0 {
			return i
		}
	}
	return len(list) - 1
}

// payeeName is the name of a payee by its rank.
func payeeName(rank int) string {
	trades := []string{"bakery", "books", "bikes", "flowers", "wine", "shoes", "toys", "tea", "garden", "music"}
	return fmt.Sprintf("%s-%05d.example", trades[rank%len(trades)], rank)
}
