package tollgate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// CutoffPreviewer computes a preview capture by capture. What it keeps grows
// with the days and currencies of the window, not with its captures.
type CutoffPreviewer struct {
	preview  CutoffPreview
	added    int64 // captures and refunds
	open     Date  // the sales day that is open now
	newest   CutoffVersion
	pending  bool // newest is not in force yet
	current  walk
	proposed walk
	payouts  map[payoutKey]*PreviewPayout
	moves    map[moveKey]*PreviewMove
	moved    map[Currency]*PreviewAmount
}

type payoutKey struct {
	date     Date
	currency Currency
}

type moveKey struct {
	from, to SalesDay
	currency Currency
}

// CutoffQuestion is what a preview is asked.
type CutoffQuestion struct {
	MerchantAccountID string
	Current           *Timeline
	Closed            Date          // the last closed sales day
	Proposed          Cutoff        // its version is not looked at
	EffectiveDate     Date          // default: the sales day of the window's start
	Window            PreviewWindow // default: the 30 days up to Now
	Now               Instant
}

const (
	defaultPreviewWindow = 30 * 24 * time.Hour
	maxPreviewDays       = 92
	maxPreviewCaptures   = 200_000 // what can be read beside Redis within the time of a request
	maxPreviewSum        = 1 << 61 // the difference of two still fits an int64
)

// NewCutoffPreviewer checks the question. The error is an *Error with
// CodeCutoffInvalid that names the parameter.
func NewCutoffPreviewer(q CutoffQuestion) (*CutoffPreviewer, error) {
	if err := q.Proposed.invalid("proposed."); err != nil {
		return nil, err
	}
	if err := q.completeWindow(); err != nil {
		return nil, err
	}
	if q.EffectiveDate == NoDate {
		q.EffectiveDate = q.Current.SalesDate(q.Window.From)
	}
	versions := q.Current.Versions()
	newest := versions[len(versions)-1]
	q.Proposed.Version = newest.Version + 1
	open := max(q.Current.SalesDate(q.Now), q.Closed+1)
	line, err := NewTimeline(append(q.Current.before(q.EffectiveDate), CutoffVersion{q.Proposed, q.EffectiveDate}))
	if err != nil {
		return nil, err
	}
	return &CutoffPreviewer{
		preview: CutoffPreview{
			Object: "cutoff_preview", MerchantAccountID: q.MerchantAccountID,
			Current: q.Current.at(q.EffectiveDate).Cutoff, Proposed: q.Proposed, EffectiveDate: q.EffectiveDate, Window: q.Window,
			TZDBVersion: TZDBVersion, AsOf: q.Now,
		},
		open: open, newest: newest, pending: len(versions) > 1 && newest.EffectiveDate > open,
		current: walk{line: q.Current}, proposed: walk{line: line},
		payouts: make(map[payoutKey]*PreviewPayout), moves: make(map[moveKey]*PreviewMove), moved: make(map[Currency]*PreviewAmount),
	}, nil
}

func (q *CutoffQuestion) completeWindow() error {
	w := &q.Window
	if w.To == 0 {
		w.To = q.Now
	}
	if w.From == 0 {
		w.From = max(w.To.Add(-defaultPreviewWindow), 1)
	}
	switch {
	case w.From >= w.To:
		return cutoffInvalid("window", "The window ends before it begins: from %s to %s.", w.From, w.To)
	case w.To > w.From.Add(maxPreviewDays*24*time.Hour):
		return cutoffInvalid("window", "The window has at most %d days.", maxPreviewDays)
	}
	return nil
}

func cutoffInvalid(param, format string, args ...any) *Error {
	return &Error{Code: CodeCutoffInvalid, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Window is the window that is looked at, with what was chosen for it.
func (p *CutoffPreviewer) Window() PreviewWindow { return p.preview.Window }

// Add counts a capture or a refund of the window; only captures are counted in
// numbers. The error is an *Error with CodeCutoffInvalid when the window holds too
// much.
func (p *CutoffPreviewer) Add(c CapturedAmount) error {
	if p.added++; p.added > maxPreviewCaptures {
		return cutoffInvalid("window", "The window holds more than %d captures; a shorter one can be previewed.", maxPreviewCaptures)
	}
	count := int64(1)
	if c.Refund {
		count = 0
	}
	p.preview.Summary.Captures += count
	computed, to := p.current.salesDay(c.At), p.proposed.salesDay(c.At)
	from := c.SalesDay
	if from == (SalesDay{}) {
		from = computed
	}
	// One that came too late for its sales day is in a later one, and stays
	// there unless the proposal itself gives it another day.
	if to.Date == computed.Date && from.Date != computed.Date {
		to = SalesDay{from.Date, p.proposed.line.PayoutDate(from.Date)}
	}
	before, after := p.payout(from.PayoutDate, c.Currency), p.payout(to.PayoutDate, c.Currency)
	before.AmountCurrent.Minor += c.Net
	after.AmountProposed.Minor += c.Net
	sums := []Money{before.AmountCurrent, after.AmountProposed}
	if from != to {
		sums = append(sums, p.move(moveKey{from, to, c.Currency}, count, c.Net)...)
	}
	for _, sum := range sums {
		if sum.Minor > maxPreviewSum || sum.Minor < -maxPreviewSum {
			return cutoffInvalid("window", "The window holds more %s than can be added up; a shorter one can be previewed.", c.Currency)
		}
	}
	return nil
}

func (p *CutoffPreviewer) payout(d Date, c Currency) *PreviewPayout {
	key := payoutKey{d, c}
	row, ok := p.payouts[key]
	if !ok {
		zero := Money{Currency: c}
		row = &PreviewPayout{d, c, zero, zero, zero}
		p.payouts[key] = row
	}
	return row
}

// move adds what moves and gives the sums that it was added to.
func (p *CutoffPreviewer) move(key moveKey, count, net int64) []Money {
	zero := Money{Currency: key.currency}
	m, ok := p.moves[key]
	if !ok {
		m = &PreviewMove{key.from.Date, key.to.Date, key.from.PayoutDate, key.to.PayoutDate, 0, zero, key.currency}
		p.moves[key] = m
	}
	all, ok := p.moved[key.currency]
	if !ok {
		all = &PreviewAmount{key.currency, zero}
		p.moved[key.currency] = all
	}
	m.Count += count
	m.Amount.Minor += net
	all.Amount.Minor += net
	return []Money{m.Amount, all.Amount}
}

// Preview is the answer, once every capture has been added.
func (p *CutoffPreviewer) Preview() *CutoffPreview {
	r := p.preview
	r.Payouts = make([]PreviewPayout, 0, len(p.payouts))
	for _, row := range p.payouts {
		row.Delta.Minor = row.AmountProposed.Minor - row.AmountCurrent.Minor
		r.Payouts = append(r.Payouts, *row)
	}
	sort.Slice(r.Payouts, func(i, j int) bool {
		a, b := &r.Payouts[i], &r.Payouts[j]
		return cmp.Or(cmp.Compare(a.PayoutDate, b.PayoutDate), cmp.Compare(a.Currency, b.Currency)) < 0
	})
	r.Moves = make([]PreviewMove, 0, len(p.moves))
	for _, m := range p.moves {
		r.Moves = append(r.Moves, *m)
		r.Summary.CapturesMoved += m.Count
		first := min(m.FromBatchDate, m.ToBatchDate)
		if r.Summary.FirstAffectedBatchDate == NoDate || first < r.Summary.FirstAffectedBatchDate {
			r.Summary.FirstAffectedBatchDate = first
		}
	}
	sort.Slice(r.Moves, func(i, j int) bool {
		a, b := &r.Moves[i], &r.Moves[j]
		return cmp.Or(cmp.Compare(a.FromBatchDate, b.FromBatchDate), cmp.Compare(a.ToBatchDate, b.ToBatchDate),
			cmp.Compare(a.FromPayoutDate, b.FromPayoutDate), cmp.Compare(a.ToPayoutDate, b.ToPayoutDate), cmp.Compare(a.Currency, b.Currency)) < 0
	})
	r.Summary.AmountsMoved = make([]PreviewAmount, 0, len(p.moved))
	for _, c := range slices.Sorted(maps.Keys(p.moved)) {
		r.Summary.AmountsMoved = append(r.Summary.AmountsMoved, *p.moved[c])
	}
	r.Warnings = p.warnings(&r)
	return &r
}

// walk finds the batches of captures that come roughly in the order of time.
type walk struct {
	line     *Timeline
	from, to Instant // a part of one sales day
	last     SalesDay
}

func (w *walk) salesDay(i Instant) SalesDay {
	if i < w.from || i >= w.to {
		d := w.line.SalesDate(i)
		w.from, w.to, w.last = i, w.line.End(d), SalesDay{d, w.line.PayoutDate(d)}
	}
	return w.last
}

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
	if last := p.proposed.line.SalesDate(r.Window.To - 1); r.EffectiveDate > last {
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
	for d := line.SalesDate(r.Window.From); d <= line.SalesDate(r.Window.To-1); d++ {
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
			d := line.PayoutDate(line.SalesDate(edge))
			shared := d == line.PayoutDate(line.SalesDate(edge-1))
			shown := slices.ContainsFunc(r.Payouts, func(row PreviewPayout) bool { return row.PayoutDate == d })
			if shared && shown && !slices.Contains(days, d) {
				days = append(days, d)
			}
		}
	}
	sort.Slice(days, func(i, j int) bool { return days[i] < days[j] })
	return days
}

func list(days []Date) string {
	texts := make([]string, len(days))
	for i, d := range days {
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}
