package tollgate

import (
	"fmt"
	"time"
)

// PayoutStep is what comes next of a payout.
type PayoutStep string

// The steps of a payout. Its sum is recomputed first; in the second and in the
// fourth its captures and fees move along, in between it is paid. Releases before
// do not know the first: they leave a new payout alone.
const (
	PayoutStepCheck     PayoutStep = "check"
	PayoutStepAvailable PayoutStep = "available"
	PayoutStepPay       PayoutStep = "pay"
	PayoutStepSettle    PayoutStep = "settle"
	PayoutStepDone      PayoutStep = "done"
)

// StoredPayout is a payout as it was read, and how far it is.
type StoredPayout struct {
	Payout
	Step       PayoutStep
	Place      int64   // up to which the step is done, in the order of its transactions
	Tally      Tally   // of a sum that is being recomputed; nil: it is not
	TallyPlace int64   // up to which
	Right      bool    // its sum was recomputed, and is what its groups say
	Lease      Instant // until when nobody else asks for it
}

// PayoutChange is everything that one step of a payout writes, all or nothing.
type PayoutChange struct {
	Payout StoredPayout // as it becomes
	Action string       // for the audit record: payout.hold, release, paid or failed; empty: none
	Note   string       // why
	Event  Event        // where there is an action

	// Of one that has failed: what is due again, as of the account's last closed
	// day, and when to look at the account.
	Again  []Payable
	Closed Date
	LookAt Instant
}

// Moves says which status the payout's captures and fees have now and get next,
// and which step follows; false when none of them moves.
func (p *StoredPayout) Moves() (from, to string, next PayoutStep, ok bool) {
	switch p.Step {
	case PayoutStepAvailable:
		return TransactionPending, TransactionAvailable, PayoutStepPay, true
	case PayoutStepSettle:
		return TransactionAvailable, TransactionSettled, PayoutStepDone, true
	}
	return "", "", p.Step, false
}

// Unchecked reports whether the payout's sum is to be recomputed before anything
// else happens to it.
func (p *StoredPayout) Unchecked() bool { return p.Status == PayoutStatusPending && !p.Right }

// SumCheck is what the next transactions of an unchecked payout add to its tally.
type SumCheck struct {
	Tally Tally
	Place int64
	Last  bool         // these were all
	Own   *Transaction // the payout's own, with the last
	Fault error        // why the sum cannot be computed
}

// CheckPayout moves the recomputing of a payout's sum along. In the end the payout
// goes on, or is held.
func CheckPayout(newID NewIDFunc, o Origin, was StoredPayout, s SumCheck) (*PayoutChange, error) {
	c := &PayoutChange{Payout: was}
	p := &c.Payout
	if s.Fault == nil && s.Last {
		s.Fault = s.Tally.Check(&was.Payout, s.Own)
	}
	if s.Fault == nil && !s.Last {
		p.Tally, p.TallyPlace = s.Tally, s.Place
		return c, nil
	}
	p.Tally, p.TallyPlace = nil, 0
	if s.Fault == nil {
		if p.Right = true; p.Step == PayoutStepCheck {
			p.Step, p.Place = PayoutStepAvailable, 0
		}
		return c, nil
	}
	p.Status, p.Step, p.HeldReason, p.Right, p.UpdatedAt = PayoutStatusHeld, PayoutStepCheck, s.Fault.Error(), false, o.At
	return c, c.close(newID, "payout.hold", "")
}

// BeginPayout takes a payout to pay it, for as long as the lease; nil when its
// turn has not come, when it is paid, or when another worker has it. Only a sum
// that was recomputed is paid; what is in transit may be paid already.
func BeginPayout(o Origin, was StoredPayout, lease time.Duration) *PayoutChange {
	if was.Step != PayoutStepPay || was.Unchecked() || was.Lease > o.At {
		return nil
	}
	c := &PayoutChange{Payout: was}
	p := &c.Payout
	p.Status, p.UpdatedAt, p.Lease = PayoutStatusInTransit, o.At, o.At.Add(lease)
	p.Asked++
	return c
}

// PayoutAccount is when an account is paid, as it was read.
type PayoutAccount struct {
	Cutoffs *Timeline
	Closed  Date // the last sales day to which nothing is added
}

// EndPayout records what the payout step said. What a failed payout was to pay is
// due again on the account's next payout date, of a day that is not closed. nil:
// it has been recorded.
func EndPayout(newID NewIDFunc, o Origin, was StoredPayout, said PayoutOutcome, a PayoutAccount) (*PayoutChange, error) {
	if was.Step != PayoutStepPay {
		return nil, nil
	}
	c := &PayoutChange{Payout: was}
	p := &c.Payout
	p.UpdatedAt = o.At
	if said.Reference != "" {
		p.Reference = said.Reference
	}
	if said.Failure == "" {
		p.Status, p.Step, p.Place = PayoutStatusPaid, PayoutStepSettle, 0
		return c, c.close(newID, "payout.paid", "")
	}
	p.Status, p.Step, p.FailureReason = PayoutStatusFailed, PayoutStepDone, said.Failure
	open := a.Cutoffs.SalesDate(o.At)
	on := a.Cutoffs.NextPayoutDate(max(p.Date, a.Closed, open-1))
	c.Closed, c.LookAt = a.Closed, max(a.Cutoffs.End(on), a.Cutoffs.End(open))
	for _, g := range p.Groups {
		c.Again = append(c.Again, Payable{Due: on, Currency: p.Currency, PayoutGroup: g})
	}
	return c, c.close(newID, "payout.failed", said.Failure)
}

// Recount is what the transactions of a held payout add up to, each compared with
// the record of its capture.
type Recount struct {
	Groups []PayoutGroup
	Fault  error        // why nobody can say
	Own    *Transaction // the payout's own
}

// ReleasePayout lets a payout go that is held, for a reason that a client gives.
// It then pays what was recounted, also where the stored sum was another.
// CodePayoutStateInvalid when it is not held, or when nobody can say what is right.
func ReleasePayout(newID NewIDFunc, o Origin, was StoredPayout, r Recount, reason string) (*PayoutChange, error) {
	c := &PayoutChange{Payout: was}
	p := &c.Payout
	p.Groups = r.Groups
	switch {
	case was.Status != PayoutStatusHeld:
		return nil, payoutState("The payout is %s; only one that is held can be released.", was.Status)
	case r.Fault != nil:
		return nil, payoutState("The payout stays held: %s. Repair that first.", r.Fault)
	case p.Amount().Minor <= 0:
		return nil, payoutState("The payout stays held: its transactions add up to %s, which cannot be paid.", p.Amount())
	case r.Own.Damaged || r.Own.ID == "":
		return nil, payoutState("The payout stays held: its own transaction cannot be read. Repair that first.")
	}
	p.Status, p.Step, p.Place, p.Right, p.HeldReason, p.Lease, p.UpdatedAt = PayoutStatusPending, PayoutStepAvailable, 0, true, "", 0, o.At
	c.Action, c.Note = "payout.release", fmt.Sprintf("%s (stored %s, recomputed %s)", reason, was.Amount(), p.Amount())
	before := was.Amount()
	var err error
	c.Event, err = p.event(newID, PayoutReleased, o.RequestID, &before)
	return c, err
}

func payoutState(format string, args ...any) *Error {
	return &Error{Code: CodePayoutStateInvalid, Message: fmt.Sprintf(format, args...)}
}

// close makes the one event of the change.
func (c *PayoutChange) close(newID NewIDFunc, action, note string) (err error) {
	c.Action, c.Note = action, note
	c.Event, err = c.Payout.Event(newID)
	return err
}

// DayClosing is what becomes of an account at a moment.
type DayClosing struct {
	Last    Date     // every sales day up to it is closed
	Payouts []Payout // that fall due by that, not yet made
	Look    Instant  // when to look at the account next; 0: not until something is to be paid
}

// CloseDays closes the sales days of an account that are over: each payout date
// is paid when the sales day of that date is over, because then every sales day
// that is paid on it is.
func CloseDays(o Origin, account string, a PayoutAccount, payable []Payable) DayClosing {
	open := a.Cutoffs.SalesDate(o.At)
	c := DayClosing{Last: open - 1, Payouts: PlanPayouts(o.Organization, account, payable, max(open-1, a.Closed))}
	for i := range c.Payouts {
		c.Payouts[i].HistoryID = o.HistoryID
	}
	next := NoDate
	for _, p := range payable {
		if p.Due >= open && (next == NoDate || p.Due < next) {
			next = p.Due
		}
	}
	if next != NoDate {
		// Never before the open day ends, which may be later after a change.
		c.Look = max(a.Cutoffs.End(next), a.Cutoffs.End(open))
	}
	return c
}
