package tollgate

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// moneyReader reads amounts in a currency that stands beside them; the first
// error stays.
type moneyReader struct {
	currency Currency
	err      error
}

func (r *moneyReader) money(s string) Money {
	m, err := ParseMoney(s, r.currency)
	if r.err == nil && err != nil {
		r.err = err
	}
	return m
}

// UnmarshalPayment reads a payment's JSON back, exact to the last digit.
func UnmarshalPayment(text []byte) (*Payment, error) {
	var wire struct {
		Payment
		Amount     string `json:"amount"`
		Capturable string `json:"amount_capturable"`
		Captured   string `json:"amount_captured"`
		Released   string `json:"amount_released"`
		FeeTotal   string `json:"fee_total"`
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return nil, fmt.Errorf("payment: %w", err)
	}
	p, r := wire.Payment, moneyReader{currency: wire.Currency}
	p.Amount, p.AmountCapturable, p.AmountCaptured = r.money(wire.Amount), r.money(wire.Capturable), r.money(wire.Captured)
	p.AmountReleased, p.FeeTotal = r.money(wire.Released), r.money(wire.FeeTotal)
	if r.err != nil {
		return nil, fmt.Errorf("payment %s: %w", p.ID, r.err)
	}
	return &p, nil
}

// UnmarshalTransaction reads a transaction's JSON back.
func UnmarshalTransaction(text []byte) (Transaction, error) {
	var wire struct {
		Transaction
		Amount string `json:"amount"`
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return Transaction{}, fmt.Errorf("transaction: %w", err)
	}
	x, r := wire.Transaction, moneyReader{currency: wire.Currency}
	if x.Amount = r.money(wire.Amount); r.err != nil {
		return x, fmt.Errorf("transaction %s: %w", x.ID, r.err)
	}
	return x, nil
}

// UnmarshalPaymentEvent reads an event of a payment with its data.
func UnmarshalPaymentEvent(text []byte) (PaymentEvent, error) {
	var wire struct {
		PaymentEvent
		Data struct {
			PaymentEventData
			Amount     string `json:"amount"`
			Captured   string `json:"amount_captured"`
			Capturable string `json:"amount_capturable"`
			Released   string `json:"amount_released"`
			FeeTotal   string `json:"fee_total"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return PaymentEvent{}, fmt.Errorf("event: %w", err)
	}
	e, d, r := wire.PaymentEvent, wire.Data, moneyReader{currency: wire.Data.Currency}
	e.Data = d.PaymentEventData
	e.Data.Amount, e.Data.AmountCaptured, e.Data.AmountCapturable = r.money(d.Amount), r.money(d.Captured), r.money(d.Capturable)
	e.Data.AmountReleased, e.Data.FeeTotal = r.money(d.Released), r.money(d.FeeTotal)
	if r.err != nil {
		return e, fmt.Errorf("event %s: %w", e.ID, r.err)
	}
	return e, nil
}
