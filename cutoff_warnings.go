package tollgate

import (
	"fmt"
	"slices"
	"strings"
)

// warnings say what the numbers alone would let one overlook.
func (p *CutoffPreviewer) warnings(r *CutoffPreview) []PreviewWarning {
	all := []PreviewWarning{}
	warn := func(code, format string, args ...any) {
		all = append(all, PreviewWarning{code, fmt.Sprintf(format, args...)})
	}
	same := p.newest.Cutoff
	if same.Version = r.Proposed.Version; same == r.Proposed {
		warn("no_change", "The proposed cutoff is the account's newest one.")
	}
	if r.Summary.Captures == 0 {
		warn("no_captures", "The account has no captures in the window.")
	}
	if r.EffectiveDate <= p.open {
		warn("effective_date_past", "Sales day %s is open and earlier ones are over: a change can take effect on %s at the earliest.", p.open, p.open+1)
	}
	if last := p.proposed.line.SalesDay(r.Window.To - 1); r.EffectiveDate > last {
		warn("effective_date_late", "The last sales day of the window is %s: no capture in it is concerned.", last)
	}
	if p.pending {
		warn("version_pending", "Version %d of the cutoff is not in force yet; a change that is made now takes its place.", p.newest.Version)
	}
	if days := p.skipped(r); len(days) > 0 {
		warn("cutoff_time_skipped", "Clocks in %s are put forward over %s on %s: the sales day ends right after the gap.",
			r.Proposed.TimeZone, r.Proposed.CutoffTime, list(days))
	}
	if days := p.partial(r); len(days) > 0 {
		warn("window_partial", "Payouts of %s also take in captures from outside the window, which are not counted.", list(days))
	}
	var empty []Date
	for _, row := range r.Payouts {
		if (row.AmountCurrent.Minor < 0 || row.AmountProposed.Minor < 0) && !slices.Contains(empty, row.PayoutDate) {
			empty = append(empty, row.PayoutDate)
		}
	}
	if len(empty) > 0 {
		what := "Fees"
		if p.added > r.Summary.Captures {
			what = "Fees and refunds"
		}
		warn("payout_negative", "%s exceed captures on %s: no payout would be made, and the amount goes into the next one.", what, list(empty))
	}
	return all
}

// skipped are the days of the window whose proposed cutoff time does not exist.
func (p *CutoffPreviewer) skipped(r *CutoffPreview) (days []Date) {
	line := p.proposed.line
	for d := line.SalesDay(r.Window.From); d <= line.SalesDay(r.Window.To-1); d++ {
		if d >= r.EffectiveDate && line.rules[line.index(d)].skips(d) {
			days = append(days, d)
		}
	}
	return days
}

// partial are the payouts of r that, by either timeline, may have captures
// outside the window: what is just outside is paid with what is just inside.
func (p *CutoffPreviewer) partial(r *CutoffPreview) (days []Date) {
	for _, line := range []*Timeline{p.current.line, p.proposed.line} {
		for _, edge := range []Instant{r.Window.From, r.Window.To} {
			d := line.PayoutDate(line.SalesDay(edge))
			shared := d == line.PayoutDate(line.SalesDay(edge-1))
			shown := slices.ContainsFunc(r.Payouts, func(row PreviewPayout) bool { return row.PayoutDate == d })
			if shared && shown && !slices.Contains(days, d) {
				days = append(days, d)
			}
		}
	}
	slices.Sort(days)
	return days
}

func list(days []Date) string {
	texts := make([]string, len(days))
	for i, d := range days {
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}
