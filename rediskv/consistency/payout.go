package consistency

import (
	"maps"
	"slices"
	"sort"

	"tollgate"
)

// AccountRecords are what an account is paid: the groups that are to be paid, each
// with what its members add up to, and where its groups stand.
type AccountRecords struct {
	Account string
	Payable []tollgate.Payable
	Sums    []tollgate.PayoutGroup // of the members of Payable, in its order
	Faults  []error                // why a sum cannot be computed, or nil
	Payouts []tollgate.StoredPayout
	Pending map[PayableGroup]string // groups with a member that is in no payout yet, and such a member
}

// PayableGroup names a group of an account.
type PayableGroup struct {
	Currency tollgate.Currency
	Date     tollgate.Date
}

func (g PayableGroup) String() string { return string(g.Currency) + " of " + g.Date.String() }

// Unplaced reports whether a group stands in no place that was read.
func (r *AccountRecords) Unplaced() bool {
	for g := range r.Pending {
		is := func(p tollgate.PayoutGroup) bool { return p.Date == g.Date }
		if !slices.ContainsFunc(r.Payable, func(p tollgate.Payable) bool { return p.Currency == g.Currency && is(p.PayoutGroup) }) &&
			!slices.ContainsFunc(r.Payouts, func(p tollgate.StoredPayout) bool {
				return p.Currency == g.Currency && slices.ContainsFunc(p.Groups, is)
			}) {
			return true
		}
	}
	return false
}

// Check compares what is to be paid with its members, and holds each group to one
// place. differ are the groups whose sum is not that of their members, and that stand
// in no other place.
func (r *AccountRecords) Check() (list []Finding, differ []int) {
	found := func(kind FindingKind, format string, args ...any) {
		list = append(list, Found(kind, "merchant_account", r.Account, format, args...))
	}
	place, twice := map[PayableGroup]string{}, map[PayableGroup]bool{}
	stands := func(g PayableGroup, where string) {
		if other, there := place[g]; there {
			twice[g] = true
			found(FindingPayable, "the group %s stands in %s and in %s", g, other, where)
		}
		place[g] = where
	}
	for i, p := range r.Payable {
		stands(PayableGroup{p.Currency, p.Date}, "what is to be paid on "+p.Due.String())
		switch sum := r.Sums[i]; {
		case r.Faults[i] != nil:
			found(FindingPayable, "the group %s %s: %v", p.Currency, p.Date, r.Faults[i])
		case sum != p.PayoutGroup:
			differ = append(differ, i)
			found(FindingPayable, "the group %s of %s says captures %d, fees %d, refunds %d, count %d; its transactions add up to %d, %d, %d, %d",
				p.Currency, p.Date, p.Captures, p.Fees, p.Refunds, p.Count, sum.Captures, sum.Fees, sum.Refunds, sum.Count)
		}
	}
	for i := range r.Payouts {
		p := &r.Payouts[i]
		if p.Status == tollgate.PayoutStatusFailed { // its groups went on
			continue
		}
		for _, g := range p.Groups {
			stands(PayableGroup{p.Currency, g.Date}, p.ID)
		}
	}
	differ = slices.DeleteFunc(differ, func(i int) bool { return twice[PayableGroup{r.Payable[i].Currency, r.Payable[i].Date}] })
	for g, member := range r.Pending {
		if place[g] == "" {
			found(FindingPayable, "transaction %s is pending, and its group %s is neither to be paid nor in a payout", member, g)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].compare(list[j]) < 0 })
	return list, differ
}

// PayoutRecords are a payout, what its members add up to, and its own transaction.
type PayoutRecords struct {
	tollgate.StoredPayout
	Changed bool // it does not say what it said when its sum was recomputed
	Sum     tollgate.Tally
	Fault   error // why it cannot be computed
	Own     *tollgate.Transaction
	// Members by their status; those that are another payout's.
	Statuses map[string]int64
	Others   int64
}

// Add counts a member of the payout's group of that number.
func (r *PayoutRecords) Add(group int, x *tollgate.Transaction) {
	if err := r.Sum[group].Add(r.MerchantAccountID, r.Currency, x); err != nil && r.Fault == nil {
		r.Fault = err
	}
	if r.Statuses == nil {
		r.Statuses = map[string]int64{}
	}
	r.Statuses[x.Status]++
	if x.PayoutID != nil && *x.PayoutID != r.ID && r.Status != tollgate.PayoutStatusFailed && x.Status == tollgate.TransactionSettled {
		r.Others++
	}
}

// Check compares the payout with its members, as it is done before it is paid
// (CheckPayout), and their state with its own. One that is held says so itself.
func (r *PayoutRecords) Check() (list []Finding) {
	found := func(format string, args ...any) {
		list = append(list, Found(FindingPayout, "payout", r.ID, format, args...))
	}
	if r.Status != tollgate.PayoutStatusHeld {
		if err := r.Fault; err != nil {
			found("%v", err)
		} else if err := r.Sum.Check(&r.Payout, r.Own); err != nil {
			found("%v", err)
		}
	}
	if r.Changed {
		found("it has changed since its sum was recomputed")
	}
	if r.Own != nil && !r.Own.Damaged && r.Own.ID != "" && r.Own.Status != string(r.Status) {
		found("it is %s, and its own transaction says %s", r.Status, r.Own.Status)
	}
	allowed := map[tollgate.PayoutStep][]string{
		tollgate.PayoutStepCheck:     {tollgate.TransactionPending, tollgate.TransactionAvailable},
		tollgate.PayoutStepAvailable: {tollgate.TransactionPending, tollgate.TransactionAvailable},
		tollgate.PayoutStepPay:       {tollgate.TransactionAvailable},
		tollgate.PayoutStepSettle:    {tollgate.TransactionAvailable, tollgate.TransactionSettled},
		tollgate.PayoutStepDone:      {tollgate.TransactionSettled},
	}[r.Step]
	if r.Status == tollgate.PayoutStatusFailed { // what becomes of its members is another's
		return list
	}
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		if !slices.Contains(allowed, status) {
			found("%d of what it pays is %s, and it is %s (%s)", r.Statuses[status], status, r.Status, r.Step)
		}
	}
	if r.Others > 0 {
		found("%d of what it pays was settled by another payout", r.Others)
	}
	return list
}
