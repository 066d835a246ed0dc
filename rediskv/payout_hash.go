package rediskv

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"tollgate"
)

// A payout's hash: ma, cur, date, st, grp (its groups), crt, upd, why, held, ref,
// asked, and how far it is: step, at (the position up to which the step is done),
// op (the operation that took it last), lease (until when nobody else takes it,
// ms). Before it leaves pending, its sum is recomputed: tally is what its groups
// add up to so far, tat the position up to which that is, and sum the groups once
// they were found to be right. It is paid only while grp and sum are the same.

func payoutFields(p *tollgate.Payout) (f pairs) {
	f.set(envelopeField, envelope)
	f.set("ma", p.MerchantAccountID)
	f.set("cur", string(p.Currency))
	f.set("date", p.Date.String())
	f.set("st", string(p.Status))
	f.set("grp", groupsText(p.Groups))
	f.int("crt", int64(p.CreatedAt))
	f.int("upd", int64(p.UpdatedAt))
	f.set("step", string(tollgate.PayoutStepCheck))
	f.set("at", "0")
	return f
}

// groupsText is "date captured fees count", and what was refunded if anything was,
// one group after the other, with commas between.
func groupsText(groups []tollgate.PayoutGroup) string {
	list := make([]string, len(groups))
	for i, g := range groups {
		list[i] = fmt.Sprintf("%s %d %d %d", g.Date, g.Captures, g.Fees, g.Count)
		if g.Refunds != 0 {
			list[i] += fmt.Sprintf(" %d", g.Refunds)
		}
	}
	return strings.Join(list, ",")
}

var payoutSteps = []string{
	string(tollgate.PayoutStepCheck), string(tollgate.PayoutStepAvailable), string(tollgate.PayoutStepPay), string(tollgate.PayoutStepSettle), string(tollgate.PayoutStepDone),
}

func payoutOf(k space, id string, f fields) (*tollgate.Payout, error) {
	r := read("payout", id, f)
	p := &tollgate.Payout{
		ID: id, OrganizationID: k.org, MerchantAccountID: r.of("ma", tollgate.PrefixMerchantAccount), Currency: r.currency("cur"),
		Status: tollgate.PayoutStatus(r.word("st", tollgate.PayoutStatuses...)), FailureReason: f["why"], HeldReason: f["held"], Reference: f["ref"], Asked: r.count("asked"),
		CreatedAt: r.instant("crt"), UpdatedAt: r.instant("upd"),
	}
	r.word("step", payoutSteps...)
	r.int("at")
	var err error
	if p.Date, err = tollgate.ParseDate(f["date"]); err != nil {
		r.fault("date")
	}
	if p.Groups, err = groupsOf(f["grp"]); err != nil {
		r.fault("grp")
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	// Its id is made of what it pays, to whom and when.
	if tollgate.PayoutOf(k.org, p.MerchantAccountID, p.Currency, p.Date) != id {
		return nil, tollgate.Damage("payout", id, fmt.Errorf("payout %s: it is not the one of account %s, %s and %s", id, p.MerchantAccountID, p.Currency, p.Date))
	}
	return p, nil
}

// StoredPayout is a payout as it was read, with the fields of its hash.
type StoredPayout struct {
	tollgate.StoredPayout
	fields fields
}

func storedPayout(k space, id string, f fields) (*StoredPayout, error) {
	p, err := payoutOf(k, id, f)
	if err != nil {
		return nil, err
	}
	r := read("payout", id, f)
	s := &StoredPayout{fields: f, StoredPayout: tollgate.StoredPayout{
		Payout: *p, Step: tollgate.PayoutStep(f["step"]), Place: r.int("at"), TallyPlace: r.count("tat"), Right: f["sum"] == f["grp"], Lease: r.moment("lease"),
	}}
	if f["tat"] != "" {
		if s.Tally, err = groupsOf(f["tally"]); err != nil || len(s.Tally) != len(s.Groups) {
			r.fault("tally")
		}
	}
	return s, r.err()
}

// payoutState are the fields that change from step to step; an empty one is not
// there.
func payoutState(p *tollgate.StoredPayout) map[string]string {
	f := map[string]string{
		"st": string(p.Status), "grp": groupsText(p.Groups), "upd": milli(p.UpdatedAt), "why": p.FailureReason, "held": p.HeldReason, "ref": p.Reference,
		"step": string(p.Step), "at": strconv.FormatInt(p.Place, 10), "lease": milli(p.Lease), "tat": "", "tally": "", "sum": "", "asked": "",
	}
	if p.Tally != nil {
		f["tat"], f["tally"] = strconv.FormatInt(p.TallyPlace, 10), groupsText(p.Tally)
	}
	if p.Right {
		f["sum"] = f["grp"]
	}
	if p.Asked > 0 {
		f["asked"] = strconv.FormatInt(p.Asked, 10)
	}
	return f
}

// groupsOf reads what groupsText printed, and nothing else.
func groupsOf(text string) (groups []tollgate.PayoutGroup, err error) {
	for one := range strings.SplitSeq(text, ",") {
		var g tollgate.PayoutGroup
		var date string
		if n, err := fmt.Sscanf(one, "%s %d %d %d %d", &date, &g.Captures, &g.Fees, &g.Count, &g.Refunds); n < 4 {
			return nil, fmt.Errorf("group %q: %w", one, err)
		}
		if g.Date, err = tollgate.ParseDate(date); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	if groupsText(groups) != text {
		return nil, fmt.Errorf("groups %q", text)
	}
	return groups, nil
}

// payableGroup is how the fields of a group begin in the hash of what is to be
// paid.
func payableGroup(p tollgate.Payable) string {
	return p.Due.String() + "/" + string(p.Currency) + "/" + p.Date.String() + "/"
}

func payableFields(p tollgate.Payable) (f pairs) {
	group := payableGroup(p)
	f.int(group+"c", p.Captures)
	f.int(group+"f", p.Fees)
	f.int(group+"n", p.Count)
	return f
}

// refundedFields are those of the groups in which something was refunded.
func refundedFields(p tollgate.Payable) (f pairs) {
	if p.Refunds != 0 {
		f.int(payableGroup(p), p.Refunds)
	}
	return f
}

func payableOf(f, refunds fields) (list []tollgate.Payable, err error) {
	r, given := read("", "", f), read("", "", refunds)
	for name := range f {
		group, ok := strings.CutSuffix(name, "c")
		if !ok {
			continue
		}
		part := strings.Split(group, "/")
		if len(part) != 4 {
			return nil, fmt.Errorf("payable: field %q", name)
		}
		p := tollgate.Payable{}
		if p.Currency, err = tollgate.ParseCurrency(part[1]); err != nil {
			return nil, fmt.Errorf("payable: %w", err)
		}
		p.Captures, p.Fees, p.Count = r.int(name), r.int(group+"f"), r.int(group+"n")
		p.Refunds = given.count(group)
		if faults := slices.Concat(r.faults, given.faults); len(faults) > 0 {
			return nil, fmt.Errorf("payable: unreadable: %s", strings.Join(faults, ", "))
		}
		if p.Due, err = tollgate.ParseDate(part[0]); err != nil {
			return nil, fmt.Errorf("payable: %w", err)
		}
		if p.Date, err = tollgate.ParseDate(part[2]); err != nil {
			return nil, fmt.Errorf("payable: %w", err)
		}
		list = append(list, p)
	}
	return list, nil
}

func (s *Store) readPayout(ctx context.Context, k space, id string) (*tollgate.Payout, error) {
	found, err := s.readHashes(ctx, "read_payout", k.object(id))
	if err != nil {
		return nil, err
	}
	p, err := payoutOf(k, id, found[0])
	return p, s.noticed(ctx, k, err)
}
