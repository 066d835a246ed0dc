package payments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payouts"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// CreatePayment commits a new payment in one round trip. ErrStale says that
// the account or its organization is not the one that was priced with, a
// BudgetError that a limit of its perimeter has no room for it.
func (s *Store) CreatePayment(ctx context.Context, c rediskv.Caller, idem rediskv.Idempotency, a *accounts.Account, ch *tollgate.PaymentChange, ans rediskv.Answer) (rediskv.Result, error) {
	k := s.db.Space(c.Organization)
	w, err := s.write(k, c, &idem, a, ch, ans)
	if err != nil {
		return rediskv.Result{}, err
	}
	w.keys.Account, w.args.AccountRevision = k.Object(a.ID), strconv.FormatInt(a.Revision, 10)
	w.args.CounterCount = len(ch.Reservations)
	f := newFields(w.keys.Payment, ch.Payment, s.form(ch.Payment))
	w.args.FieldCount = len(f)
	inv := scriptCreatePayment.With(createPaymentKeys{w.keys, k.Organization()}, createPaymentArgs{w.args, a.Organization})
	groups := len(ch.Transactions) + len(ch.Reservations)
	inv.Grow(2*groups, len(f)+16*groups)
	inv.Args = append(inv.Args, f...)
	s.transactions(inv, k, ch, w.document)
	consumed(inv, k, ch.Reservations, ch.Payment.CreatedAt)
	outcome, rest, err := s.db.Run(ctx, inv)
	if err != nil {
		return rediskv.Result{}, err
	}
	rest = s.db.Revised(c, inv, outcome, rest)
	if outcome == "exhausted" {
		return rediskv.Result{}, exceeded(ch.Reservations, rest)
	}
	r, err := committed(inv, outcome, "created", rest, ans)
	// What an earlier counter was not there for, the script has noted in the payment.
	if err == nil && !r.Repeated && !slices.ContainsFunc(ch.Reservations, func(r tollgate.Reservation) bool { return r.Earlier }) {
		s.copies.keep(c.Organization, ch.Payment, string(w.args.TicketText))
	}
	return r, err
}

// Kept is a payment and its ticket as this process read or wrote them last, without
// asking Redis; nil where it has no copy. Only a commit knows whether they still are
// so: nothing may be refused because of them.
func (s *Store) Kept(org, id string) (*tollgate.Payment, *tollgate.Ticket) {
	p, text := s.copies.get(org, id)
	if text == "" {
		return nil, nil
	}
	t, err := TicketOf(s.db.Space(org), p.TicketID, text)
	if err != nil {
		return nil, nil // reading it says so
	}
	return &p, t
}

// Transition commits a transition computed from the payment as it was read.
// idem is nil when the request had no key, a when nothing is captured or refunded.
// ErrStale says that the account is not the one that the sales day was
// computed from, or that the day is closed; ErrConflict that the payment has
// moved on; CodeAuthorizationExpired that its time was up, in which case it has
// been expired.
func (s *Store) Transition(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, a *accounts.Account, ch *tollgate.PaymentChange, ans rediskv.Answer) (rediskv.Result, error) {
	by := "client"
	if ch.Refund != nil { // what the clock ends is what can still be captured
		by = "refund"
	}
	r, outcome, err := s.change(ctx, c, idem, a, ch, ans, by)
	if rediskv.Gone(err) {
		if err = s.ledger.ReturnArchived(ctx, s.db.Space(c.Organization), ch.Payment.ID, err); err == nil {
			r, outcome, err = s.change(ctx, c, idem, a, ch, ans, by)
		}
	}
	if err != nil {
		s.copies.forget(c.Organization, ch.Payment.ID)
	}
	if err != nil || outcome != "expired" {
		return r, err
	}
	return rediskv.Result{}, s.Lapse(ctx, c, ch.Payment)
}

// Lapse expires a payment that a client touched when its time was up, and returns
// what the client is answered: CodeAuthorizationExpired, with its status now.
func (s *Store) Lapse(ctx context.Context, c rediskv.Caller, p *tollgate.Payment) error {
	s.copies.forget(c.Organization, p.ID)
	if err := s.ExpirePayment(ctx, c.Organization, p.ID); err != nil {
		return err
	}
	now, _, _, err := s.read(ctx, c, p.ID)
	if err != nil {
		return err
	}
	return p.Expired(now.Status)
}

// ExpirePayment carries out the clock's transition of a payment whose deadline
// has passed; when there is none it does nothing.
func (s *Store) ExpirePayment(ctx context.Context, org, id string) error {
	clock := rediskv.Caller{Organization: org}
	for {
		p, t, _, err := s.read(ctx, clock, id)
		if err != nil {
			return err
		}
		now := s.db.Now()
		if due := p.Deadline(); due == 0 || now < due {
			return nil
		}
		ch, err := tollgate.TransitionPayment(s.db.NewID, tollgate.Origin{Organization: org, At: now}, p, t, tollgate.TriggerExpire, nil)
		if err != nil {
			return err
		}
		_, outcome, err := s.change(ctx, clock, nil, nil, ch, rediskv.Answer{}, "clock")
		if errors.Is(err, rediskv.ErrConflict) {
			continue
		}
		if err == nil && outcome == "early" {
			return nil
		}
		return err
	}
}

// change writes a payment in the form of this process; or as it is, where others write dense
// already.
func (s *Store) change(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, a *accounts.Account, ch *tollgate.PaymentChange, ans rediskv.Answer, by string) (rediskv.Result, string, error) {
	r, outcome, err := s.changeIn(ctx, s.form(ch.Payment), c, idem, a, ch, ans, by)
	if outcome == "folded" {
		return s.changeIn(ctx, record.Dense, c, idem, a, ch, ans, by)
	}
	return r, outcome, err
}

func (s *Store) changeIn(ctx context.Context, form record.Form, c rediskv.Caller, idem *rediskv.Idempotency, a *accounts.Account, ch *tollgate.PaymentChange, ans rediskv.Answer, by string) (rediskv.Result, string, error) {
	k := s.db.Space(c.Organization)
	w, err := s.write(k, c, idem, a, ch, ans)
	if err != nil {
		return rediskv.Result{}, "", err
	}
	if a != nil {
		w.keys.Account, w.args.AccountRevision = k.Object(a.ID), strconv.FormatInt(a.Revision, 10)
	}
	w.args.CounterCount = len(returning(ch))
	f, folds := changedFields(w.keys.Payment, ch.Payment, form), ""
	if w.args.FieldCount = len(f); form == record.Dense {
		folds = "1"
	}
	authorization := ledger.Authorization(ch.Payment)
	before := eventBefore(ch.Ticket)
	inv := scriptChangePayment.With(changePaymentKeys{
		w.keys, authorization.Place(k).Key, k.TransactionsIn(string(ch.From)), k.TransactionsIn(string(ch.Payment.Status)),
	}, changePaymentArgs{
		paymentArgs: w.args, PaymentRevision: ch.Payment.Revision - 1, EventBefore: before, NowMs: int64(ch.Payment.UpdatedAt),
		PackedIDs: bodies.Identifiers(ch.Event.ID, before),
		Actor:     by, AuthorizationMember: authorization.Member(), AuthorizationField: authorization.FieldPrefix(), NewStatus: string(ch.Payment.Status), Folds: folds,
	})
	inv.Args = append(inv.Args, f...)
	s.transactions(inv, k, ch, w.document)
	returned(inv, k, ch)
	outcome, rest, err := s.db.Run(ctx, inv)
	if err != nil || outcome == "folded" {
		return rediskv.Result{}, outcome, err
	}
	rest = s.db.Revised(c, inv, outcome, rest)
	if (outcome == "changed" || outcome == "done") && by != "clock" {
		s.copies.keep(c.Organization, ch.Payment, string(w.args.TicketText))
	}
	if outcome == "changed" {
		for _, counter := range rest {
			key, _ := counter.(string)
			_ = s.db.DamagedAt(ctx, key, errors.New("it is no number, and what the payment gives back is not counted"))
		}
	}
	r, err := rediskv.ResultOf(outcome, rest, ans)
	return r, outcome, err
}

func committed(inv *script.Invocation, outcome, success string, rest []any, ans rediskv.Answer) (rediskv.Result, error) {
	if outcome != success && outcome != "done" && outcome != "repeated" {
		return rediskv.Result{}, script.Unexpected(inv, outcome)
	}
	return rediskv.ResultOf(outcome, rest, ans)
}

// RefusePayment remembers a rule's refusal of an action (create or capture);
// nothing else is kept of it.
func (s *Store) RefusePayment(ctx context.Context, c rediskv.Caller, action string, idem rediskv.Idempotency, a *accounts.Account, ans rediskv.Answer, reason string) (rediskv.Result, error) {
	refusal := s.db.NewCommit(c, &idem)
	refusal.Answer = ans
	refusal.Unchanged(refusal.Space.Object(a.ID), strconv.FormatInt(a.Revision, 10))
	refusal.Unchanged(refusal.Space.Organization(), strconv.FormatInt(a.Organization, 10))
	if err := refusal.Audited("payment."+action, "refused", reason, "merchant_account", a.ID); err != nil {
		return rediskv.Result{}, err
	}
	r, err := refusal.Run(ctx)
	if errors.Is(err, rediskv.ErrConflict) {
		err = rediskv.ErrStale
	}
	return r, err
}

type (
	readPaymentKeys struct {
		rediskv.GrantKeys
		Payment, Ticket string
	}
	readPartKeys struct {
		rediskv.GrantKeys
		Part, Parts string
	}
	readPartArgs struct {
		rediskv.GrantArgs
		PartField string
	}
)

var (
	scriptReadPayment = script.NewRead[readPaymentKeys, rediskv.GrantArgs](lua, "read_payment")
	scriptReadPart    = script.NewRead[readPartKeys, readPartArgs](lua, "read_part")
)

// Payment reads a payment and its ticket, and keeps a copy.
func (s *Store) Payment(ctx context.Context, c rediskv.Caller, id string) (*tollgate.Payment, *tollgate.Ticket, error) {
	p, t, text, err := s.read(ctx, c, id)
	if err == nil {
		s.copies.keep(c.Organization, p, text)
	}
	return p, t, err
}

// read reads a payment, its ticket and the ticket's text.
func (s *Store) read(ctx context.Context, c rediskv.Caller, id string) (p *tollgate.Payment, t *tollgate.Ticket, text string, err error) {
	if len(id) <= len(tollgate.PrefixPayment) || id[:len(tollgate.PrefixPayment)] != tollgate.PrefixPayment {
		return nil, nil, "", tollgate.NotFound()
	}
	k := s.db.Space(c.Organization)
	grant, granted := c.Grant(k)
	_, rest, err := s.db.Run(ctx, scriptReadPayment.With(readPaymentKeys{grant, k.Object(id), k.Object(tollgate.TicketOf(id))}, granted))
	var fields rediskv.Fields
	if err == nil {
		fields = record.Verified(k.Object(id), record.FieldsOf(rest[0]))
		text, _ = rest[1].(string)
	} else if fields, text, err = s.archivedInstead(ctx, k, id, err); err != nil {
		return nil, nil, "", err
	}
	if p, err = PaymentOf(id, fields); err != nil {
		return nil, nil, "", s.db.Noticed(ctx, k, err)
	}
	t, err = TicketOf(k, tollgate.TicketOf(id), text)
	return p, t, text, s.db.Noticed(ctx, k, err)
}

// Ticket reads a ticket.
func (s *Store) Ticket(ctx context.Context, c rediskv.Caller, id string) (*tollgate.Ticket, error) {
	text, err := s.readPart(ctx, c, tollgate.PrefixTicket, id)
	if err != nil {
		return nil, err
	}
	k := s.db.Space(c.Organization)
	t, err := TicketOf(k, id, text)
	return t, s.db.Noticed(ctx, k, err)
}

// readPart reads a document of a payment by its id, which begins with a prefix: it is kept
// under that, or among the payment's parts.
func (s *Store) readPart(ctx context.Context, c rediskv.Caller, prefix, id string) (string, error) {
	if !strings.HasPrefix(id, prefix) {
		return "", tollgate.NotFound()
	}
	k := s.db.Space(c.Organization)
	grant, granted := c.Grant(k)
	keys, args := readPartKeys{grant, k.Object(id), k.Object(id)}, readPartArgs{GrantArgs: granted}
	if _, number, ok := tollgate.NumberIn(id); ok && prefix != tollgate.PrefixTicket {
		keys.Parts, args.PartField = k.Parts(id), number+rediskv.Document
	}
	_, rest, err := s.db.Run(ctx, scriptReadPart.With(keys, args))
	if rediskv.Gone(err) {
		return s.archivedPart(ctx, k, prefix, id, err)
	}
	if err != nil {
		return "", err
	}
	text, _ := rest[0].(string)
	return text, nil
}

// TicketOf reads a stored ticket.
func TicketOf(k rediskv.Space, id, text string) (*tollgate.Ticket, error) {
	t := new(tollgate.Ticket)
	err := record.DecodeAt(k.Object(id), text, t)
	if err == nil {
		for i, e := range t.Evaluations {
			if e.Kind == tollgate.EvaluationCapture && e.Input.CaptureIndex == 0 { // storedTicket
				t.Evaluations[i].Kind = tollgate.EvaluationRefund
			}
		}
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
	if len(t.Evaluations) == 0 || t.CreatedAt == 0 || t.MerchantAccountID == "" || t.Payee == "" && t.ErasedAt == 0 || !slices.Contains([]tollgate.Decision{tollgate.DecisionAllow, tollgate.DecisionDeny, tollgate.DecisionReview}, t.Decision) {
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
func (s *Store) DuePayments(ctx context.Context, partition, limit int) ([]payouts.Due, error) {
	return s.payouts.Due(ctx, "due_payments", rediskv.DueKey(partition), limit)
}
