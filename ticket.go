package tollgate

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// EvaluationKind says what an evaluation priced.
type EvaluationKind string

// The kinds: the evaluation at creation is an authorization, or a review when
// the perimeter asked for one; each capture and each refund has its own.
const (
	EvaluationAuthorization EvaluationKind = "authorization"
	EvaluationCapture       EvaluationKind = "capture"
	EvaluationReview        EvaluationKind = "review"
	EvaluationRefund        EvaluationKind = "refund"
)

// TicketLine is a fee line and the number of the evaluation that made it.
type TicketLine struct {
	Label      string   `json:"label"`
	Amount     Money    `json:"amount"`
	Rule       Citation `json:"rule"`
	Evaluation int      `json:"evaluation"`
}

// EvaluationInput is the exact input of an evaluation.
type EvaluationInput struct {
	Amount       Money     `json:"amount"`
	Currency     Currency  `json:"currency"`
	Payee        KeptPayee `json:"payee"`
	CaptureIndex uint32    `json:"capture_index"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (i *EvaluationInput) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain EvaluationInput
	return readMoney(d, (*plain)(i), &i.Currency, Currency.amounts)
}

// Evaluation keeps what is needed to run the cited modules again and get the
// same lines.
type Evaluation struct {
	Number      int             `json:"number"` // from 1
	Kind        EvaluationKind  `json:"kind"`
	Input       EvaluationInput `json:"input"`
	Rules       []RuleRef       `json:"rules"` // in the order in which they ran
	LinesSHA256 string          `json:"lines_sha256"`
	EventID     string          `json:"event_id"`
	At          Instant         `json:"at"`
}

// Pricing is what the rules saw.
func (e *Evaluation) Pricing() PricingInput {
	return PricingInput{Amount: e.Input.Amount, Payee: string(e.Input.Payee), CaptureIndex: e.Input.CaptureIndex, Refund: e.Kind == EvaluationRefund}
}

// Ticket is the account of a payment's fees (spec §2) and the JSON of it. A
// payment has one; its id never changes and its evaluations are append-only.
type Ticket struct {
	Object            string            `json:"object"` // "ticket"
	ID                string            `json:"id"`
	CreatedAt         Instant           `json:"created_at"`
	PaymentID         string            `json:"payment_id"`
	MerchantAccountID string            `json:"merchant_account_id"`
	Amount            Money             `json:"amount"`
	Currency          Currency          `json:"currency"`
	Payee             KeptPayee         `json:"payee"`
	Lines             []TicketLine      `json:"lines"` // the authorization's, from the first capture on those of all captures and refunds
	Total             Money             `json:"total"`
	Decision          Decision          `json:"decision"`
	Perimeter         PerimeterDecision `json:"perimeter"`
	Evaluations       []Evaluation      `json:"evaluations"`
	EventIDs          []string          `json:"event_ids"`
	ErasedAt          Instant           `json:"erased_at" pack:"2" csv:"-"` // null while nothing of it is
}

// UnmarshalJSONFrom gives the amounts their currency.
func (t *Ticket) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Ticket
	return readMoney(d, (*plain)(t), &t.Currency, Currency.amounts)
}

// NewTicket makes the ticket of a new payment, without evaluations.
func NewTicket(p *Payment) *Ticket {
	return &Ticket{
		Object: "ticket", ID: p.TicketID, CreatedAt: p.CreatedAt, PaymentID: p.ID,
		MerchantAccountID: p.MerchantAccountID, Amount: p.Amount, Currency: p.Currency, Payee: p.Payee,
		Total: Money{Currency: p.Currency}, Decision: p.Perimeter.Decision, Perimeter: p.Perimeter,
	}
}

// Evaluate appends an evaluation. The first capture's lines replace the
// authorization's; later ones and refunds add to them.
func (t *Ticket) Evaluate(kind EvaluationKind, in PricingInput, rules []RuleRef, lines []FeeLine, eventID string, at Instant) {
	e := Evaluation{
		Number: len(t.Evaluations) + 1, Kind: kind, Rules: rules, EventID: eventID, At: at,
		Input:       EvaluationInput{in.Amount, in.Amount.Currency, KeptPayee(in.Payee), in.CaptureIndex},
		LinesSHA256: LinesSHA256(lines),
	}
	if kind == EvaluationCapture && !t.captured() {
		t.Lines, t.Total.Minor = nil, 0
	}
	t.Evaluations = append(t.Evaluations, e)
	for _, l := range lines {
		t.Lines = append(t.Lines, TicketLine{l.Label, l.Amount, l.Rule, e.Number})
		t.Total.Minor += l.Amount.Minor
	}
}

// Refer adds the event of a transition.
func (t *Ticket) Refer(eventID string) { t.EventIDs = append(t.EventIDs, eventID) }

func (t *Ticket) captured() bool {
	return slices.ContainsFunc(t.Evaluations, func(e Evaluation) bool { return e.Kind == EvaluationCapture })
}

// Pinned is the rule versions that the payment was created with; every
// capture is priced with them, and every refund with those that take part in
// refunds.
func (t *Ticket) Pinned() []RuleRef {
	if len(t.Evaluations) == 0 {
		return nil
	}
	return t.Evaluations[0].Rules
}
