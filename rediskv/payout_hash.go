package rediskv

import (
	"fmt"
	"strconv"
	"strings"

	"tollgate"
)

// A payout's hash: ma, cur, date, st, grp (its groups), crt, upd, why, and how
// far it is: step, at (the position up to which the step is done), op (the
// operation that took it last), lease (until when nobody else takes it, ms).
//
// The steps of a payout. In the first and the last its captures and fees move
// along, in between it is paid.
const (
	stepAvailable = "available"
	stepPay       = "pay"
	stepSettle    = "settle"
	stepDone      = "done"
)

func payoutFields(p *tollgate.Payout) (f pairs) {
	f.set("ma", p.MerchantAccountID)
	f.set("cur", string(p.Currency))
	f.set("date", p.Date.String())
	f.set("st", string(p.Status))
	f.set("grp", groupsText(p.Groups))
	f.int("crt", int64(p.CreatedAt))
	f.int("upd", int64(p.UpdatedAt))
	f.set("step", stepAvailable)
	f.set("at", "0")
	return f
}

// groupsText is "date captured fees count", one group after the other, with
// commas between.
func groupsText(groups []tollgate.PayoutGroup) string {
	list := make([]string, len(groups))
	for i, g := range groups {
		list[i] = fmt.Sprintf("%s %d %d %d", g.Date, g.Captures, g.Fees, g.Count)
	}
	return strings.Join(list, ",")
}

func payoutOf(k space, id string, f fields) (*tollgate.Payout, error) {
	p := &tollgate.Payout{
		ID: id, OrganizationID: k.org, MerchantAccountID: f["ma"], Currency: tollgate.Currency(f["cur"]),
		Status: tollgate.PayoutStatus(f["st"]), FailureReason: f["why"], CreatedAt: f.instant("crt"), UpdatedAt: f.instant("upd"),
	}
	var err error
	if p.Date, err = tollgate.ParseDate(f["date"]); err != nil {
		return nil, fmt.Errorf("payout %s: %w", id, err)
	}
	for text := range strings.SplitSeq(f["grp"], ",") {
		var g tollgate.PayoutGroup
		var date string
		if _, err := fmt.Sscanf(text, "%s %d %d %d", &date, &g.Captures, &g.Fees, &g.Count); err != nil {
			return nil, fmt.Errorf("payout %s: group %q: %w", id, text, err)
		}
		if g.Date, err = tollgate.ParseDate(date); err != nil {
			return nil, fmt.Errorf("payout %s: %w", id, err)
		}
		p.Groups = append(p.Groups, g)
	}
	return p, nil
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

func payableOf(f fields) (list []tollgate.Payable, err error) {
	for name, captured := range f {
		group, ok := strings.CutSuffix(name, "c")
		if !ok {
			continue
		}
		part := strings.Split(group, "/")
		if len(part) != 4 {
			return nil, fmt.Errorf("payable: field %q", name)
		}
		p := tollgate.Payable{Currency: tollgate.Currency(part[1])}
		p.Fees, p.Count = f.int(group+"f"), f.int(group+"n")
		if p.Captures, err = strconv.ParseInt(captured, 10, 64); err != nil {
			return nil, fmt.Errorf("payable: field %q: %w", name, err)
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
