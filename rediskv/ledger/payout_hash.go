package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// A payout's hash: his, ma, cur, date, st, grp (its groups), crt, upd, why, held, ref,
// asked, and how far it is: step, at (the position up to which the step is done),
// op (the operation that took it last), lease (until when nobody else takes it,
// ms). Before it leaves pending, its sum is recomputed: tally is what its groups
// add up to so far, tat the position up to which that is, and sum the groups once
// they were found to be right. It is paid only while grp and sum are the same.

// PayoutFields are the fields of a new payout.
func PayoutFields(p *tollgate.Payout) (f rediskv.Pairs) {
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	if p.HistoryID != "" {
		f.Set("his", p.HistoryID)
	}
	f.Set("ma", p.MerchantAccountID)
	f.Set("cur", string(p.Currency))
	f.Set("date", p.Date.String())
	f.Set("st", string(p.Status))
	f.Set("grp", groupsText(p.Groups))
	f.Int("crt", int64(p.CreatedAt))
	f.Int("upd", int64(p.UpdatedAt))
	f.Set("step", string(tollgate.PayoutStepCheck))
	f.Set("at", "0")
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

func payoutOf(k rediskv.Space, id string, f rediskv.Fields) (*tollgate.Payout, error) {
	r := record.ReadHash("payout", id, f)
	p := &tollgate.Payout{
		ID: id, OrganizationID: k.Org, HistoryID: f["his"], MerchantAccountID: r.Of("ma", tollgate.PrefixMerchantAccount), Currency: r.Currency("cur"),
		Status: tollgate.PayoutStatus(r.Word("st", tollgate.PayoutStatuses...)), FailureReason: f["why"], HeldReason: f["held"], Reference: f["ref"], Asked: r.Count("asked"),
		CreatedAt: r.Instant("crt"), UpdatedAt: r.Instant("upd"),
	}
	r.Word("step", payoutSteps...)
	r.Int("at")
	var err error
	if p.Date, err = tollgate.ParseDate(f["date"]); err != nil {
		r.Fault("date")
	}
	if p.Groups, err = groupsOf(f["grp"]); err != nil {
		r.Fault("grp")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	// Its id is made of what it was to pay when it was made, which a release changes.
	if at, ok := tollgate.IDTime(id); !ok || tollgate.At(at) != tollgate.At(p.Date.Time()) {
		return nil, tollgate.Damage("payout", id, fmt.Errorf("payout %s: it is not one of %s", id, p.Date))
	}
	return p, nil
}

// StoredPayout is a payout as it was read, with the fields of its hash.
type StoredPayout struct {
	tollgate.StoredPayout
	Fields rediskv.Fields
}

// StoredPayoutOf reads a payout's hash; its error is the damage of the payout.
func StoredPayoutOf(k rediskv.Space, id string, f rediskv.Fields) (*StoredPayout, error) {
	p, err := payoutOf(k, id, f)
	if err != nil {
		return nil, err
	}
	r := record.ReadHash("payout", id, f)
	s := &StoredPayout{Fields: f, StoredPayout: tollgate.StoredPayout{
		Payout: *p, Step: tollgate.PayoutStep(f["step"]), Place: r.Int("at"), TallyPlace: r.Count("tat"), Right: f["sum"] == f["grp"], Lease: r.Moment("lease"),
	}}
	if f["tat"] != "" {
		if s.Tally, err = groupsOf(f["tally"]); err != nil || len(s.Tally) != len(s.Groups) {
			r.Fault("tally")
		}
	}
	return s, r.Err()
}

// PayoutState are the fields that change from step to step; an empty one is not
// there.
func PayoutState(p *tollgate.StoredPayout) map[string]string {
	f := map[string]string{
		"st": string(p.Status), "grp": groupsText(p.Groups), "upd": rediskv.Milli(p.UpdatedAt), "why": p.FailureReason, "held": p.HeldReason, "ref": p.Reference,
		"step": string(p.Step), "at": strconv.FormatInt(p.Place, 10), "lease": rediskv.Milli(p.Lease), "tat": "", "tally": "", "sum": "", "asked": "",
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

// PayableGroup is how the fields of a group begin in the hash of what is to be
// paid.
func PayableGroup(p tollgate.Payable) string {
	return p.Due.String() + "/" + string(p.Currency) + "/" + p.Date.String() + "/"
}

// PayableFields are the sums of a group that is to be paid.
func PayableFields(p tollgate.Payable) (f rediskv.Pairs) {
	group := PayableGroup(p)
	f.Int(group+"c", p.Captures)
	f.Int(group+"f", p.Fees)
	f.Int(group+"n", p.Count)
	return f
}

// RefundedFields are those of the groups in which something was refunded.
func RefundedFields(p tollgate.Payable) (f rediskv.Pairs) {
	if p.Refunds != 0 {
		f.Int(PayableGroup(p), p.Refunds)
	}
	return f
}

// PayableOf reads the groups that are to be paid, and what was refunded in them.
func PayableOf(f, refunds rediskv.Fields) (list []tollgate.Payable, err error) {
	r, given := record.ReadHash("", "", f), record.ReadHash("", "", refunds)
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
		p.Captures, p.Fees, p.Count = r.Int(name), r.Int(group+"f"), r.Int(group+"n")
		p.Refunds = given.Count(group)
		if faults := slices.Concat(r.Faults, given.Faults); len(faults) > 0 {
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

// ReadPayout reads a payout; CodeNotFound when there is none.
func (s *Store) ReadPayout(ctx context.Context, k rediskv.Space, id string) (*tollgate.Payout, error) {
	found, err := s.db.ReadHashes(ctx, "read_payout", k.Object(id))
	if err != nil {
		return nil, err
	}
	return s.PayoutOf(ctx, k, id, found[0])
}

// PayoutOf reads a payout's hash, and notices damage.
func (s *Store) PayoutOf(ctx context.Context, k rediskv.Space, id string, f rediskv.Fields) (*tollgate.Payout, error) {
	p, err := payoutOf(k, id, f)
	if err == nil {
		s.indexesOf(k, p)
	}
	return p, s.db.Noticed(ctx, k, err)
}
