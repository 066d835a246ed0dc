package tollgate

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
)

// PayoutStatus is a state of a payout and of its transaction (interface §3).
type PayoutStatus string

// The states. A payout that failed stays so; what it was to pay is paid by the
// next one.
const (
	PayoutStatusPending   PayoutStatus = "pending"    // made; its captures become available
	PayoutStatusInTransit PayoutStatus = "in_transit" // the payout step has been asked to pay it
	PayoutStatusPaid      PayoutStatus = "paid"
	PayoutStatusFailed    PayoutStatus = "failed"
	PayoutStatusHeld      PayoutStatus = "held" // its transactions do not add up to it; nobody is asked to pay it
)

// Payout is what an account is paid in one currency on one date: captures less
// refunds and the fees of both. It is a transaction to clients, and the payout_id of others.
type Payout struct {
	ID                string // the same for what it pays, to whom and when, however often it is tried: an idempotency key
	OrganizationID    string
	HistoryID         string // within which it was made; empty: by an earlier release
	MerchantAccountID string
	Currency          Currency
	Date              Date
	Groups            []PayoutGroup
	Status            PayoutStatus
	FailureReason     string // of a failed one
	HeldReason        string // of one that is held
	Reference         string // what the payout step called it
	Asked             int64  // how often the payout step has been asked
	Damaged           bool   // it is stored and cannot be read; only ID counts
	CreatedAt         Instant
	UpdatedAt         Instant
}

// PayoutGroup is all captures and refunds of an account and currency that had one
// payout date when they were made. Once the sales day of that date is over it cannot
// change any more, and it is in exactly one place: to be paid, or in a payout.
type PayoutGroup struct {
	Date                    Date
	Captures, Fees, Refunds int64 // minor units
	Count                   int64 // of captures
}

// Payable is a group that is to be paid. Due is its date, or later when a
// payout of it has failed.
type Payable struct {
	Due      Date
	Currency Currency
	PayoutGroup
}

// PayoutOutcome is what a payout step made of a payout.
type PayoutOutcome struct {
	Failure   string // why it could not be paid, for people; empty: it is paid
	Reference string // what the one who paid calls it; may be empty
}

// Captured is the sum of the payout's captures.
func (p *Payout) Captured() Money { return p.sum(func(g PayoutGroup) int64 { return g.Captures }) }

// Fees is the sum of the fees that are kept of it.
func (p *Payout) Fees() Money { return p.sum(func(g PayoutGroup) int64 { return g.Fees }) }

// Refunded is the sum of the refunds that are kept of it.
func (p *Payout) Refunded() Money { return p.sum(func(g PayoutGroup) int64 { return g.Refunds }) }

// Amount is what is paid. It is never negative.
func (p *Payout) Amount() Money {
	return p.sum(func(g PayoutGroup) int64 { return g.Captures - g.Fees - g.Refunds })
}

// count is how many captures it pays.
func (p *Payout) count() int64 { return p.sum(func(g PayoutGroup) int64 { return g.Count }).Minor }

func (p *Payout) sum(of func(PayoutGroup) int64) Money {
	m := Money{Currency: p.Currency}
	for _, g := range p.Groups {
		m.Minor += of(g)
	}
	return m
}

// PayoutOf is the id of the payout of an account, currency and date that pays groups:
// whoever makes it, and however often, it is one. Another amount is another payout, so
// that who has paid it never takes it for that, whatever Redis has lost. Without
// groups it is the id that earlier releases made.
func PayoutOf(org, account string, c Currency, d Date, groups ...PayoutGroup) string {
	parts := []string{org, account, string(c), d.String()}
	for _, g := range groups {
		parts = append(parts, fmt.Sprintf("%s %d %d %d %d", g.Date, g.Captures, g.Fees, g.Refunds, g.Count))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	var id ulid.ULID
	if err := id.SetTime(ulid.Timestamp(d.Time())); err != nil {
		panic(err) // for years beyond 10889
	}
	if err := id.SetEntropy(sum[:10]); err != nil {
		panic(err) // for another length
	}
	return PrefixPayout + strings.ToLower(id.String())
}

// PayoutTransactionOf is the id of a payout's own transaction.
func PayoutTransactionOf(payout string) string { return PrefixTransaction + payout[len(PrefixPayout):] }

// PlanPayouts says which payouts an account is due once the sales days up to
// closed are over: one for each currency and date on which something is due,
// of all that is due by then. Where fees and refunds eat up the captures there is
// none, and what is due waits for the next. Each payout's groups are in the order of
// their dates.
func PlanPayouts(org, account string, payable []Payable, closed Date) (payouts []Payout) {
	payable = slices.Clone(payable)
	sort.Slice(payable, func(i, j int) bool {
		a, b := &payable[i], &payable[j]
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Due, b.Due), cmp.Compare(a.Date, b.Date)) < 0
	})
	next := Payout{}
	for i, p := range payable {
		if p.Due > closed {
			continue
		}
		if p.Currency != next.Currency {
			next = Payout{OrganizationID: org, MerchantAccountID: account, Currency: p.Currency, Status: PayoutStatusPending}
		}
		next.Date = p.Due
		next.Groups = append(next.Groups, p.PayoutGroup)
		more := i+1 < len(payable) && payable[i+1].Due == p.Due && payable[i+1].Currency == p.Currency
		if more || next.Amount().Minor <= 0 {
			continue
		}
		sort.Slice(next.Groups, func(i, j int) bool { return next.Groups[i].Date < next.Groups[j].Date })
		next.ID = PayoutOf(org, account, next.Currency, next.Date, next.Groups...)
		payouts = append(payouts, next)
		next.Groups = nil
	}
	sort.SliceStable(payouts, func(i, j int) bool { return payouts[i].Date < payouts[j].Date })
	return payouts
}

// NextPayoutDate is the first date after a day on which something is paid.
func (t *Timeline) NextPayoutDate(after Date) Date {
	d := after + 1 // is paid after it, and perhaps earlier days are too
	for next := t.PayoutDate(d); ; next = t.PayoutDate(d) {
		earlier := t.PayoutDate(d - 1)
		if earlier <= after || earlier > next {
			return next
		}
		d--
	}
}

// Transaction is the payout's own transaction.
func (p *Payout) Transaction() Transaction {
	on := p.Date.String()
	return Transaction{
		Object: "transaction", ID: PayoutTransactionOf(p.ID), CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
		Type: TransactionPayout, Status: string(p.Status), PayoutID: &p.ID, MerchantAccountID: p.MerchantAccountID,
		Amount: p.Amount(), Currency: p.Currency, BatchDate: &on, AvailableOn: &on,
	}
}

// PayoutObject is the JSON of a payout, and, with its id under another name, the
// data of every payout.* event.
type PayoutObject struct {
	Object            string       `json:"object"` // "payout"
	ID                string       `json:"id"`
	CreatedAt         Instant      `json:"created_at"`
	OrganizationID    string       `json:"organization_id"`
	HistoryID         *string      `json:"history_id"` // nil of one that an earlier release made
	MerchantAccountID string       `json:"merchant_account_id"`
	TransactionID     string       `json:"transaction_id"`
	Status            PayoutStatus `json:"status"`
	Amount            Money        `json:"amount"`
	Currency          Currency     `json:"currency"`
	AmountCaptured    Money        `json:"amount_captured"`
	AmountRefunded    *Money       `json:"amount_refunded,omitempty"` // if anything was
	FeeTotal          Money        `json:"fee_total"`
	CaptureCount      int64        `json:"capture_count"`
	PayoutDate        Date         `json:"payout_date"`
	FailureReason     *string      `json:"failure_reason"`
	HeldReason        *string      `json:"held_reason"`
	Reference         *string      `json:"reference"`
	UpdatedAt         Instant      `json:"updated_at"`

	Damaged bool `json:"-"` // as of Payout
}

// UnmarshalJSONFrom gives the amounts their currency.
func (p *PayoutObject) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain PayoutObject
	return readMoney(d, (*plain)(p), &p.Currency, Currency.sums)
}

// refunded is nil of a payout without refunds, as they were before there were any.
func (p *Payout) refunded() *Money {
	if sum := p.Refunded(); sum.Minor != 0 {
		return &sum
	}
	return nil
}

// JSON is the payout as clients and the payout step read it.
func (p *Payout) JSON() PayoutObject {
	return PayoutObject{
		Object: "payout", ID: p.ID, CreatedAt: p.CreatedAt, OrganizationID: p.OrganizationID, HistoryID: optional(p.HistoryID), MerchantAccountID: p.MerchantAccountID,
		TransactionID: PayoutTransactionOf(p.ID), Status: p.Status, Amount: p.Amount(), Currency: p.Currency,
		AmountCaptured: p.Captured(), AmountRefunded: p.refunded(), FeeTotal: p.Fees(), CaptureCount: p.count(), PayoutDate: p.Date,
		FailureReason: optional(p.FailureReason), HeldReason: optional(p.HeldReason), Reference: optional(p.Reference), UpdatedAt: p.UpdatedAt, Damaged: p.Damaged,
	}
}

// PayoutEventData is the data of every payout.* event.
type PayoutEventData struct {
	PayoutID          string       `json:"payout_id"`
	TransactionID     string       `json:"transaction_id"`
	MerchantAccountID string       `json:"merchant_account_id"`
	Amount            Money        `json:"amount"`
	Currency          Currency     `json:"currency"`
	AmountCaptured    Money        `json:"amount_captured"`
	AmountRefunded    *Money       `json:"amount_refunded,omitempty"` // if anything was
	FeeTotal          Money        `json:"fee_total"`
	CaptureCount      int64        `json:"capture_count"`
	PayoutDate        Date         `json:"payout_date"`
	Status            PayoutStatus `json:"status"`
	FailureReason     *string      `json:"failure_reason"`
	HeldReason        *string      `json:"held_reason"`
	Reference         *string      `json:"reference"`
	AmountBefore      *Money       `json:"amount_before,omitempty"` // of payout.released: what was stored
}

// UnmarshalJSONFrom gives the amounts their currency.
func (e *PayoutEventData) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain PayoutEventData
	return readMoney(d, (*plain)(e), &e.Currency, Currency.sums)
}

// Event is the one event of the state that the payout is in: payout.created,
// payout.paid, payout.failed or payout.held.
func (p *Payout) Event(newID NewIDFunc) (Event, error) {
	t, ok := map[PayoutStatus]EventType{PayoutStatusPending: PayoutCreated, PayoutStatusPaid: PayoutPaid, PayoutStatusFailed: PayoutFailed, PayoutStatusHeld: PayoutHeld}[p.Status]
	if !ok {
		return Event{}, fmt.Errorf("payout %s: %s has no event", p.ID, p.Status)
	}
	return p.event(newID, t, "", nil)
}

// event is one of the payout; before is the sum that was stored, of one that is
// released.
func (p *Payout) event(newID NewIDFunc, t EventType, request string, before *Money) (Event, error) {
	return NewEvent(newID(PrefixEvent), t, p.UpdatedAt, p.OrganizationID, p.MerchantAccountID, request, PayoutEventData{
		PayoutID: p.ID, TransactionID: PayoutTransactionOf(p.ID), MerchantAccountID: p.MerchantAccountID,
		Amount: p.Amount(), Currency: p.Currency, AmountCaptured: p.Captured(), AmountRefunded: p.refunded(), FeeTotal: p.Fees(), CaptureCount: p.count(),
		PayoutDate: p.Date, Status: p.Status, FailureReason: optional(p.FailureReason), HeldReason: optional(p.HeldReason),
		Reference: optional(p.Reference), AmountBefore: before,
	})
}

// Add counts a transaction that is a member of an account's group. The error says
// why it cannot belong there.
func (g *PayoutGroup) Add(account string, c Currency, x *Transaction) error {
	switch {
	case x.Damaged || x.ID == "":
		return errors.New("a transaction cannot be read")
	case x.MerchantAccountID != account || x.Currency != c:
		return fmt.Errorf("transaction %s is of another account or currency", x.ID)
	case x.AvailableOn != nil && *x.AvailableOn != g.Date.String():
		return fmt.Errorf("transaction %s is of %s, not of %s", x.ID, *x.AvailableOn, g.Date)
	}
	switch x.Type {
	case TransactionCapture:
		g.Captures += x.Amount.Minor
		g.Count++
	case TransactionFee:
		g.Fees += x.Amount.Minor
	case TransactionRefund:
		g.Refunds += x.Amount.Minor
	default:
		return fmt.Errorf("transaction %s is a %s", x.ID, x.Type)
	}
	return nil
}

// Tally is a payout's sum recomputed from its transactions, group by group.
type Tally []PayoutGroup

// NewTally is nothing yet of a payout's groups.
func (p *Payout) NewTally() Tally {
	t := make(Tally, len(p.Groups))
	for i, g := range p.Groups {
		t[i].Date = g.Date
	}
	return t
}

// Add counts a transaction that is in the payout's group of that number. The
// error says why it cannot belong there.
func (t Tally) Add(p *Payout, group int, x *Transaction) error {
	if s := x.Status; !x.Damaged && x.ID != "" && s != TransactionPending && s != TransactionAvailable {
		return fmt.Errorf("transaction %s is %s already", x.ID, s)
	}
	return t[group].Add(p.MerchantAccountID, p.Currency, x)
}

// terms says what an amount is made of, for people.
func (p *Payout) terms() string {
	refunds := ""
	if p.Refunded().Minor != 0 {
		refunds = fmt.Sprintf("refunded %s, ", p.Refunded())
	}
	return fmt.Sprintf("%s (captured %s, %sfees %s, %d captures)", p.Amount(), p.Captured(), refunds, p.Fees(), p.count())
}

// Check compares a whole tally and the payout's own transaction with what the
// payout is to pay. The error says what differs, for people.
func (t Tally) Check(p *Payout, own *Transaction) error {
	sum := Payout{Currency: p.Currency, Groups: t}
	switch {
	case !slices.Equal(t, p.Groups):
		return fmt.Errorf("its transactions add up to %s, and it says %s", sum.terms(), p.terms())
	case own.Damaged || own.ID == "" || own.Type != TransactionPayout:
		return errors.New("its own transaction cannot be read")
	case own.Amount != p.Amount():
		return fmt.Errorf("its own transaction is of %s, and it says %s", own.Amount, p.Amount())
	}
	return nil
}
