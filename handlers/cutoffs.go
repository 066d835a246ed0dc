package handlers

import (
	"math"
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
)

// previewRequest is the body of POST /v1/cutoffs/preview.
type previewRequest struct {
	account   string
	proposed  cutoffChange
	effective tollgate.Date
	window    tollgate.PreviewWindow
}

// cutoffChange is what is to be different; what is left out stays.
type cutoffChange struct {
	time, zone, calendar, interval *string
	delay                          *int
}

func parsePreview(f *input.Fields) previewRequest {
	r := previewRequest{account: f.ID("merchant_account_id"), effective: f.Date("effective_date")}
	if !f.Has("merchant_account_id") {
		f.Missing("merchant_account_id")
	}
	if p := f.Object("proposed", true); p != nil {
		r.proposed = cutoffChange{
			time: p.Given("cutoff_time"), zone: p.Given("time_zone"),
			calendar: p.Given("calendar"), interval: p.Given("interval"),
		}
		if delay := p.Whole("settlement_delay_days", 0, math.MinInt32, math.MaxInt32); p.Has("settlement_delay_days") {
			r.proposed.delay = &delay
		}
	}
	if w := f.Object("window", false); w != nil {
		r.window = tollgate.PreviewWindow{From: w.Instant("from", false), To: w.Instant("to", false)}
	}
	return r
}

func (c *cutoffChange) apply(to tollgate.Cutoff) tollgate.Cutoff {
	change(c.time, &to.CutoffTime)
	change(c.zone, &to.TimeZone)
	change(c.delay, &to.SettlementDelayDays)
	change(c.calendar, &to.Calendar)
	change(c.interval, &to.Interval)
	return to
}

func change[T any](from, to *T) {
	if from != nil {
		*to = *from
	}
}

// previewCutoff says what another cutoff would have done with the captures of
// a window. It writes nothing at all.
func (s *Server) previewCutoff(c *call, r previewRequest) (*answer, error) {
	a, err := s.account(c, r.account, "merchant_account_id")
	if err != nil {
		return nil, err
	}
	p, err := tollgate.NewCutoffPreviewer(tollgate.CutoffQuestion{
		MerchantAccountID: a.ID, Current: a.Cutoffs, Closed: a.Closed, Proposed: r.proposed.apply(a.Cutoff),
		EffectiveDate: r.effective, Window: r.window, Now: tollgate.At(s.clock()),
	})
	if err != nil {
		return nil, err
	}
	if err := s.store.Captured(c.ctx, c.caller(http.StatusOK), a.ID, p.Window(), p.Add); err != nil {
		return nil, err
	}
	return object(p.Preview())
}
