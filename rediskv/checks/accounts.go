package checks

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/ledger"
)

// merchantAccounts walks through the accounts: the transactions of each, and what it
// is to be paid.
func (w *walk) merchantAccounts(ctx context.Context) error {
	var ids []string
	if err := w.Timed(ctx, "accounts", func(ctx context.Context) error {
		text, err := w.Redis().HGet(ctx, w.K.Organization(), "accounts").Result()
		ids = strings.Fields(text)
		if err == redis.Nil {
			err = nil
		}
		return err
	}); err != nil {
		return err
	}
	slices.Sort(ids)
	from, at, _ := strings.Cut(w.at.At, "/")
	for _, id := range ids {
		if id < from {
			continue
		}
		if err := w.merchantAccount(ctx, id, at); err != nil && !w.damage(err) {
			return err
		}
		at = ""
		if err := w.passed(ctx, "accounts", 1, id+"/"); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) merchantAccount(ctx context.Context, id, from string) error {
	x := index{key: w.K.TransactionsOf(id), what: "the list of account " + id, not: func(f rediskv.Fields) string {
		if f["ma"] != id {
			return "it is of " + f["ma"]
		}
		return ""
	}}
	seen := accountSeen{pending: map[consistency.PayableGroup]string{}}
	if err := w.through(ctx, x, "index entries", from, id+"/", func(_ context.Context, entries []entry, found []rediskv.Fields) error {
		seen.add(id, entries, found)
		return nil
	}); err != nil {
		return err
	}
	return confirmed(ctx, w, []string{id}, func(ctx context.Context, _ []string) ([][]Finding, error) {
		findings, err := w.account(ctx, id, seen)
		return [][]Finding{findings}, err
	})
}

// accountSeen is what the transactions of an account say of what it is paid.
type accountSeen struct {
	pending map[consistency.PayableGroup]string
	payouts []string
}

func (s *accountSeen) add(account string, entries []entry, found []rediskv.Fields) {
	for i, e := range entries {
		f := found[i]
		switch {
		case f["ma"] != account:
		case f["ty"] == string(tollgate.TransactionPayout):
			s.payouts = append(s.payouts, tollgate.PrefixPayout+e.Member)
		case f["st"] == tollgate.TransactionPending && f["av"] != "":
			if on, err := tollgate.ParseDate(f["av"]); err == nil {
				s.pending[consistency.PayableGroup{Currency: tollgate.Currency(f["cur"]), Date: on}] = e.ID()
			}
		}
	}
}

// account compares what an account is to be paid with its transactions. The sums are
// read at one moment with the number of the last event; what was committed later is in
// neither them nor the members that are added up.
func (w *walk) account(ctx context.Context, id string, seen accountSeen) (findings []Finding, err error) {
	r := consistency.AccountRecords{Account: id, Pending: seen.pending}
	var live []string
	if r.Payouts, live, err = w.payoutsOf(ctx, seen.payouts); err != nil {
		return nil, err
	}
	var hash, payable, refunds *redis.MapStringStringCmd
	var last *redis.StringCmd
	var look *redis.FloatCmd
	again := make([]*redis.MapStringStringCmd, len(live))
	member := w.K.Org + "/" + id
	if err := w.AtOnce(ctx, "payable", func(ctx context.Context, pipe redis.Pipeliner) {
		hash, payable, refunds = pipe.HGetAll(ctx, w.K.Object(id)), pipe.HGetAll(ctx, w.K.Payable(id)), pipe.HGetAll(ctx, w.K.Refunds(id))
		last, look = pipe.HGet(ctx, w.K.Sequences(), "event"), pipe.ZScore(ctx, w.K.Cutoffs, member)
		for i, p := range live {
			again[i] = pipe.HGetAll(ctx, w.K.Object(p))
		}
	}); err != nil {
		return nil, err
	}
	if len(hash.Val()) == 0 {
		return plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "merchant_account", id, "its organization names it, and it is not there")}), nil
	}
	for i, p := range live {
		if stored, err := ledger.StoredPayoutOf(w.K, p, again[i].Val()); err == nil { // else it was found by itself
			r.Payouts = append(r.Payouts, stored.StoredPayout)
		}
	}
	if r.Payable, err = ledger.PayableOf(payable.Val(), refunds.Val()); err != nil {
		return plain(consistency.FoundDamage(tollgate.Damage("merchant_account", id, err))), nil
	}
	compare := func(a, b tollgate.Payable) int {
		return strings.Compare(ledger.PayableGroup(a), ledger.PayableGroup(b))
	}
	sort.Slice(r.Payable, func(i, j int) bool { return compare(r.Payable[i], r.Payable[j]) < 0 })
	bound, err := strconv.ParseInt(last.Val(), 10, 64)
	if err != nil {
		bound = 0
	}
	if r.Unplaced() {
		later, err := w.payoutsSince(ctx, id, consistency.LastPlace(w.last), consistency.LastPlace(bound))
		if err != nil {
			return nil, err
		}
		r.Payouts = append(r.Payouts, later...)
	}
	for _, p := range r.Payable {
		sum, fault, err := w.sum(ctx, id, p, consistency.LastPlace(bound))
		if err != nil {
			return nil, err
		}
		r.Sums, r.Faults = append(r.Sums, sum), append(r.Faults, fault)
	}
	list, differ := r.Check()
	findings = w.payableFindings(id, r, list, differ)
	return append(findings, w.cutoff(id, r.Payable, hash.Val(), look.Err() == nil)...), nil
}

// payableFindings gives each sum that differs what repairs it.
func (w *walk) payableFindings(id string, r consistency.AccountRecords, list []consistency.Finding, differ []int) (findings []Finding) {
	for _, f := range list {
		one := Finding{Finding: f}
		for _, i := range differ {
			if p := r.Payable[i]; strings.HasPrefix(f.Message, fmt.Sprintf("the group %s of %s says ", p.Currency, p.Date)) {
				one = w.recompute(f, id, p, r.Sums[i])
			}
		}
		findings = append(findings, one)
	}
	return findings
}

// recompute sets the sums of a group to what its members add up to.
func (w *walk) recompute(found consistency.Finding, account string, p tollgate.Payable, sum tollgate.PayoutGroup) Finding {
	right := tollgate.Payable{Due: p.Due, Currency: p.Currency, PayoutGroup: sum}
	payable, refunds, group := w.K.Payable(account), w.K.Refunds(account), ledger.PayableGroup(p)
	return repairable(found, func(c *rediskv.Commit) {
		fields := ledger.PayableFields(p)
		for i := 0; i+1 < len(fields); i += 2 {
			name, _ := fields[i].(string)
			text, _ := fields[i+1].(string)
			c.Still(text, "HGET", payable, name)
		}
		given := ""
		if p.Refunds != 0 {
			given = strconv.FormatInt(p.Refunds, 10)
		}
		c.Still(given, "HGET", refunds, group)
		c.Do("HSET", payable, ledger.PayableFields(right)...)
		if sum.Refunds != 0 {
			c.Do("HSET", refunds, group, strconv.FormatInt(sum.Refunds, 10))
		} else if given != "" {
			c.Do("HDEL", refunds, group)
		}
	}, "set it to captures %d, fees %d, refunds %d, count %d", sum.Captures, sum.Fees, sum.Refunds, sum.Count)
}

// cutoff looks whether an account that is to be paid something on a day to come is
// among those that are looked at then.
func (w *walk) cutoff(id string, payable []tollgate.Payable, f rediskv.Fields, there bool) []Finding {
	_, closed, err := accounts.CutoffVersions(f)
	if err != nil {
		return plain(consistency.FoundDamage(tollgate.Damage("merchant_account", id, err)))
	}
	if there || !slices.ContainsFunc(payable, func(p tollgate.Payable) bool { return p.Due > closed }) {
		return nil
	}
	key, member, now := w.K.Cutoffs, w.K.Org+"/"+id, rediskv.Milli(w.store.db.Now())
	return []Finding{repairable(consistency.Found(consistency.FindingQueue, "merchant_account", id, "it is to be paid, and is not among those that are looked at for it"), func(c *rediskv.Commit) {
		c.Still("", "ZSCORE", key, member)
		c.Do("ZADD", key, now, member)
	}, "add %s to %s", member, key)}
}

// payoutsOf reads payouts that are done, and says which are live. Those that cannot
// be read are found by themselves.
func (w *walk) payoutsOf(ctx context.Context, ids []string) (done []tollgate.StoredPayout, live []string, err error) {
	for some := range slices.Chunk(ids, page) {
		replies := make([]*redis.MapStringStringCmd, len(some))
		if err := w.Pipelined(ctx, "payouts", func(ctx context.Context, pipe redis.Pipeliner) {
			for i, id := range some {
				replies[i] = pipe.HGetAll(ctx, w.K.Object(id))
			}
		}); err != nil {
			return nil, nil, err
		}
		for i, id := range some {
			p, err := ledger.StoredPayoutOf(w.K, id, replies[i].Val())
			switch {
			case err != nil:
			case p.Step == tollgate.PayoutStepDone:
				done = append(done, p.StoredPayout)
			default:
				live = append(live, id)
			}
		}
	}
	return done, live, nil
}

// payoutsSince reads the payouts of an account that were made since the walk began.
func (w *walk) payoutsSince(ctx context.Context, account string, after, upTo int64) (list []tollgate.StoredPayout, err error) {
	for at := float64(after); ; {
		entries, err := look.Entries(ctx, w.Reader, w.K.TransactionsOf(account), at, upTo)
		if err != nil || len(entries) == 0 {
			return list, err
		}
		hashes := make([]*redis.MapStringStringCmd, len(entries))
		if err := w.Pipelined(ctx, "payouts", func(ctx context.Context, pipe redis.Pipeliner) {
			for i, e := range entries {
				hashes[i] = pipe.HGetAll(ctx, w.K.Object(tollgate.PrefixPayout+e.Member)) // of those that are payouts'
			}
		}); err != nil {
			return nil, err
		}
		for i, e := range entries {
			if f := hashes[i].Val(); len(f) > 0 {
				if p, err := ledger.StoredPayoutOf(w.K, tollgate.PrefixPayout+e.Member, f); err == nil {
					list = append(list, p.StoredPayout)
				}
			}
		}
		at = entries[len(entries)-1].Score
		if err := w.passed(ctx, "members of groups", len(entries), w.at.At); err != nil {
			return nil, err
		}
	}
}

// sum adds up the members of a group that is to be paid, up to a position.
func (w *walk) sum(ctx context.Context, account string, p tollgate.Payable, bound int64) (sum tollgate.PayoutGroup, fault, err error) {
	sum = tollgate.PayoutGroup{Date: p.Date}
	err = w.members(ctx, account, p.Currency, p.Date, bound, func(x *tollgate.Transaction) {
		if failed := sum.Add(account, p.Currency, x); failed != nil && fault == nil {
			fault = failed
		}
	})
	return sum, fault, err
}

// members reads the members of a group in pages, up to a position.
func (w *walk) members(ctx context.Context, account string, c tollgate.Currency, d tollgate.Date, bound int64, each func(*tollgate.Transaction)) error {
	key := w.K.Group(account, c, d)
	for at := float64(-1); ; {
		entries, err := look.Listed(ctx, w.Reader, w.store.ledger, key, at, bound)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return nil
		}
		asked := make([]*located, len(entries))
		if err := w.Pipelined(ctx, "members", func(ctx context.Context, pipe redis.Pipeliner) {
			for i, e := range entries {
				asked[i] = w.askTransaction(ctx, pipe, e.Of())
			}
		}); err != nil {
			return err
		}
		found, listed := make([]rediskv.Fields, len(entries)), make([]ledger.Indexed, len(entries))
		for i, e := range entries {
			found[i], listed[i] = asked[i].fields(), e.Of()
		}
		if _, err := look.Filled(ctx, w.store.ledger, w.K, listed, found); err != nil {
			return err
		}
		for i, e := range entries {
			x, stored := ledger.TransactionOf(e.ID(), found[i])
			x.Damaged = stored.Err() != nil
			each(x)
		}
		at = entries[len(entries)-1].Score
		if err := w.passed(ctx, "members of groups", len(entries), w.at.At); err != nil {
			return err
		}
	}
}
