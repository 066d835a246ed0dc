package rediskv

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// cutoffsOf reads the versions of an account's cutoff and its last closed
// sales day. An account from before versions were kept has the one.
func cutoffsOf(f fields, current tollgate.Cutoff) (*tollgate.Timeline, tollgate.Date, error) {
	versions := []tollgate.CutoffVersion{{Cutoff: current}}
	if text := f["cutoffs"]; text != "" {
		if err := decode(text, &versions); err != nil {
			return nil, tollgate.NoDate, fmt.Errorf("cutoffs: %w", err)
		}
	}
	t, err := tollgate.NewTimeline(versions)
	if err != nil {
		return nil, tollgate.NoDate, err
	}
	closed := tollgate.NoDate
	if text := f["closed"]; text != "" {
		if closed, err = tollgate.ParseDate(text); err != nil {
			return nil, tollgate.NoDate, fmt.Errorf("closed: %w", err)
		}
	}
	return t, closed, nil
}

// cutoff gives an account's cutoff its version and returns all versions. A
// change holds from the sales day after the open one, or later where that is
// wanted: what is captured already stays in its sales day. One that does not
// hold yet is replaced by the next change, and its number is not used again.
func (p *plan) cutoff(found fields, a *tollgate.MerchantAccount, wanted tollgate.Date) (string, error) {
	a.Cutoff.Version = 1
	versions := []tollgate.CutoffVersion{{Cutoff: a.Cutoff}}
	if len(found) > 0 {
		var old tollgate.MerchantAccount
		if err := decode(found["json"], &old); err != nil {
			return "", err
		}
		t, closed, err := cutoffsOf(found, old.Cutoff)
		if err != nil {
			return "", err
		}
		a.Cutoff.Version = old.Cutoff.Version
		versions = t.Versions()
		last := versions[len(versions)-1]
		open := max(t.SalesDay(p.now), closed+1)
		moved := wanted != tollgate.NoDate && last.EffectiveDate > open && last.EffectiveDate != wanted
		if a.Cutoff != old.Cutoff || moved {
			if wanted != tollgate.NoDate && wanted <= open {
				return "", &tollgate.Error{
					Code:    tollgate.CodeParameterInvalid,
					Message: fmt.Sprintf("cutoff: the effective date %s is too early: the sales day %s is open, so a change holds from %s at the earliest", wanted, open, open+1),
				}
			}
			if last.EffectiveDate > open {
				versions = versions[:len(versions)-1]
			}
			a.Cutoff.Version++
			p.effective[a.ID] = max(open+1, wanted)
			versions = append(versions, tollgate.CutoffVersion{Cutoff: a.Cutoff, EffectiveDate: p.effective[a.ID]})
			if _, err := tollgate.NewTimeline(versions); err != nil {
				return "", err
			}
		}
	}
	text, err := json.Marshal(versions, json.Deterministic(true))
	return string(text), err
}
