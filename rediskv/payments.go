package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tollgate"
)

// CreatePayment commits a new payment in one round trip. ErrStale says that
// the account or its organization is not the one that was priced with, an
// ExhaustedError that a limit of its perimeter has no room for it.
func (s *Store) CreatePayment(ctx context.Context, c Caller, idem Idempotency, a *Account, ch *tollgate.PaymentChange, ans Answer) (Result, error) {
	k := s.space(c.Organization)
	w, err := s.write(k, c, &idem, a, ch, ans)
	if err != nil {
		return Result{}, err
	}
	w.keys.Account, w.args.AccountRevision = k.object(a.ID), strconv.FormatInt(a.Revision, 10)
	w.args.CounterCount = len(ch.Uses)
	f := paymentFields(ch.Payment, true)
	w.args.FieldCount = len(f)
	inv := scriptCreatePayment.with(createPaymentKeys{w.keys, k.organization()}, createPaymentArgs{w.args, a.organization})
	inv.args = append(inv.args, f...)
	inv.transactions(k, ch.Transactions)
	inv.consumed(k, ch.Uses, ch.Payment.CreatedAt)
	outcome, rest, err := s.run(ctx, inv)
	if err != nil {
		return Result{}, err
	}
	if outcome == "exhausted" {
		return Result{}, exhausted(ch.Uses, rest)
	}
	return committed(inv, outcome, "created", rest, ans)
}

// ChangePayment commits a transition computed from the payment as it was read.
// idem is nil when the request had no key, a when nothing is captured or refunded.
// ErrStale says that the account is not the one that the sales day was
// computed from, or that the day is closed; ErrConflict that the payment has
// moved on; CodeAuthorizationExpired that its time was up, in which case it has
// been expired.
func (s *Store) ChangePayment(ctx context.Context, c Caller, idem *Idempotency, a *Account, ch *tollgate.PaymentChange, ans Answer) (Result, error) {
	by := "client"
	if ch.Refund != nil { // what the clock ends is what can still be captured
		by = "refund"
	}
	r, outcome, err := s.change(ctx, c, idem, a, ch, ans, by)
	if err != nil || outcome != "expired" {
		return r, err
	}
	return Result{}, s.Lapse(ctx, c, ch.Payment)
}

// Lapse expires a payment that a client touched when its time was up, and returns
// what the client is answered: CodeAuthorizationExpired, with its status now.
func (s *Store) Lapse(ctx context.Context, c Caller, p *tollgate.Payment) error {
	if err := s.ExpirePayment(ctx, c.Organization, p.ID); err != nil {
		return err
	}
	now, _, err := s.Payment(ctx, c, p.ID)
	if err != nil {
		return err
	}
	return p.Expired(now.Status)
}

// ExpirePayment carries out the clock's transition of a payment whose deadline
// has passed; when there is none it does nothing.
func (s *Store) ExpirePayment(ctx context.Context, org, id string) error {
	clock := Caller{Organization: org}
	for {
		p, t, err := s.Payment(ctx, clock, id)
		if err != nil {
			return err
		}
		now := s.Now()
		if due := p.Deadline(); due == 0 || now < due {
			return nil
		}
		ch, err := tollgate.MovePayment(s.Mint, tollgate.Origin{Organization: org, At: now}, p, t, tollgate.TriggerExpire, nil)
		if err != nil {
			return err
		}
		_, outcome, err := s.change(ctx, clock, nil, nil, ch, Answer{}, "clock")
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err == nil && outcome == "early" {
			return nil
		}
		return err
	}
}

func (s *Store) change(ctx context.Context, c Caller, idem *Idempotency, a *Account, ch *tollgate.PaymentChange, ans Answer, by string) (Result, string, error) {
	k := s.space(c.Organization)
	w, err := s.write(k, c, idem, a, ch, ans)
	if err != nil {
		return Result{}, "", err
	}
	if a != nil {
		w.keys.Account, w.args.AccountRevision = k.object(a.ID), strconv.FormatInt(a.Revision, 10)
	}
	w.args.CounterCount = len(returning(ch))
	f := paymentFields(ch.Payment, false)
	w.args.FieldCount = len(f)
	authorization := tollgate.AuthorizationOf(ch.Payment.ID)
	inv := scriptChangePayment.with(changePaymentKeys{
		w.keys, k.object(authorization), k.transactionsIn(string(ch.From)), k.transactionsIn(string(ch.Payment.Status)),
	}, changePaymentArgs{
		paymentArgs: w.args, PaymentRevision: ch.Payment.Revision - 1, NowMs: int64(ch.Payment.UpdatedAt),
		Actor: by, AuthorizationMember: unprefixed(authorization), NewStatus: string(ch.Payment.Status),
	})
	inv.args = append(inv.args, f...)
	inv.transactions(k, ch.Transactions)
	inv.returned(k, ch)
	outcome, rest, err := s.run(ctx, inv)
	if err != nil {
		return Result{}, outcome, err
	}
	if outcome == "changed" {
		for _, counter := range rest {
			key, _ := counter.(string)
			_ = s.damagedAt(ctx, key, errors.New("it is no number, and what the payment gives back is not counted"))
		}
	}
	r, err := result(outcome, rest, ans)
	return r, outcome, err
}

func committed(inv *invocation, outcome, success string, rest []any, ans Answer) (Result, error) {
	if outcome != success && outcome != "done" && outcome != "repeated" {
		return Result{}, unexpected(inv, outcome)
	}
	return result(outcome, rest, ans)
}

// RefusePayment remembers a rule's refusal of an action (create or capture);
// nothing else is kept of it.
func (s *Store) RefusePayment(ctx context.Context, c Caller, action string, idem Idempotency, a *Account, ans Answer, reason string) (Result, error) {
	refusal := s.commit(c, &idem)
	refusal.answer = ans
	refusal.unchanged(refusal.space.object(a.ID), strconv.FormatInt(a.Revision, 10))
	refusal.unchanged(refusal.space.organization(), strconv.FormatInt(a.organization, 10))
	if err := refusal.audited("payment."+action, "refused", reason, "merchant_account", a.ID); err != nil {
		return Result{}, err
	}
	r, err := refusal.run(ctx)
	if errors.Is(err, ErrConflict) {
		err = ErrStale
	}
	return r, err
}

type (
	readPaymentKeys struct{ Grant, Payment, Ticket string }
	readValueKeys   struct{ Grant, Value string }
	readArgs        struct{ GrantVersion string }
)

var (
	scriptReadPayment = newScript[readPaymentKeys, readArgs](lua, "read_payment")
	scriptReadValue   = newScript[readValueKeys, readArgs](lua, "read_value")
)

// Payment reads a payment and its ticket.
func (s *Store) Payment(ctx context.Context, c Caller, id string) (*tollgate.Payment, *tollgate.Ticket, error) {
	if len(id) <= len(tollgate.PrefixPayment) || id[:len(tollgate.PrefixPayment)] != tollgate.PrefixPayment {
		return nil, nil, tollgate.NotFound()
	}
	k := s.space(c.Organization)
	grant, version := c.grant(k)
	_, rest, err := s.run(ctx, scriptReadPayment.with(readPaymentKeys{grant, k.object(id), k.object(tollgate.TicketOf(id))}, readArgs{version}))
	if err != nil {
		return nil, nil, err
	}
	p, err := paymentOf(id, fieldsOf(rest[0]))
	if err != nil {
		return nil, nil, s.noticed(ctx, k, err)
	}
	text, _ := rest[1].(string)
	t, err := ticketOf(tollgate.TicketOf(id), text)
	return p, t, s.noticed(ctx, k, err)
}

// Ticket reads a ticket.
func (s *Store) Ticket(ctx context.Context, c Caller, id string) (*tollgate.Ticket, error) {
	if len(id) <= len(tollgate.PrefixTicket) || id[:len(tollgate.PrefixTicket)] != tollgate.PrefixTicket {
		return nil, tollgate.NotFound()
	}
	k := s.space(c.Organization)
	grant, version := c.grant(k)
	_, rest, err := s.run(ctx, scriptReadValue.with(readValueKeys{grant, k.object(id)}, readArgs{version}))
	if err != nil {
		return nil, err
	}
	text, _ := rest[0].(string)
	t, err := ticketOf(id, text)
	return t, s.noticed(ctx, k, err)
}

// ticketOf reads a stored ticket.
func ticketOf(id, text string) (*tollgate.Ticket, error) {
	t := new(tollgate.Ticket)
	err := decode(text, t)
	if err == nil {
		err = checkTicket(t)
	}
	if err == nil && t.ID != id {
		err = fmt.Errorf("ticket %s: the document is of %q", id, t.ID)
	}
	if err != nil {
		return nil, tollgate.Damage("ticket", id, err)
	}
	return t, nil
}

// checkTicket checks what JSON alone does not: a stored ticket that fails it was
// not written by this service. One from elsewhere is anybody's, and verifying it
// says what is wrong with it.
func checkTicket(t *tollgate.Ticket) error {
	if _, err := tollgate.ParseCurrency(string(t.Currency)); err != nil {
		return fmt.Errorf("ticket %s: currency %q", t.ID, t.Currency)
	}
	if !strings.HasPrefix(t.PaymentID, tollgate.PrefixPayment) || t.ID != tollgate.TicketOf(t.PaymentID) {
		return fmt.Errorf("ticket %s: it is not the one of payment %q", t.ID, t.PaymentID)
	}
	total := tollgate.Money{Currency: t.Currency}
	for _, l := range t.Lines {
		total.Minor += l.Amount.Minor
	}
	if total != t.Total {
		return fmt.Errorf("ticket %s: lines add up to %s, the total is %s", t.ID, total, t.Total)
	}
	if len(t.Evaluations) == 0 || t.CreatedAt == 0 || t.MerchantAccountID == "" || t.Payee == "" || !slices.Contains([]tollgate.Decision{tollgate.Allow, tollgate.Deny, tollgate.Review}, t.Decision) {
		return fmt.Errorf("ticket %s: a member is missing or unknown", t.ID)
	}
	for i, e := range t.Evaluations {
		if e.Number != i+1 || e.Input.Currency != t.Currency {
			return fmt.Errorf("ticket %s: evaluation %d is number %d in %q", t.ID, i+1, e.Number, e.Input.Currency)
		}
	}
	return nil
}

// DuePayments lists payments of a partition whose deadline has passed, the
// earliest first.
func (s *Store) DuePayments(ctx context.Context, partition, limit int) ([]Due, error) {
	return s.due(ctx, "due_payments", dueKey(partition), limit)
}
