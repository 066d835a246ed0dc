package tollgate

import (
	"fmt"
	"slices"
)

// CutoffVersion is a version of an account's cutoff and the first sales day
// that ends by it.
type CutoffVersion struct {
	Cutoff
	EffectiveDate Date `json:"effective_date"`
}

// Timeline divides time into the sales days of one account, through all
// versions of its cutoff. It may be used by several goroutines.
type Timeline struct {
	versions []CutoffVersion
	rules    []*rules
}

// SalesDay is what a capture belongs to: the sales day and when that is paid.
type SalesDay struct{ Date, PayoutDate Date }

// NewTimeline compiles the versions of an account's cutoff, oldest first. The
// first holds for every earlier day too. Versions and effective dates must
// grow.
func NewTimeline(versions []CutoffVersion) (*Timeline, error) {
	if len(versions) == 0 {
		return nil, fmt.Errorf("cutoff: no version")
	}
	t := &Timeline{versions: slices.Clone(versions)}
	for i, v := range versions {
		r, err := v.compile()
		if err != nil {
			return nil, fmt.Errorf("cutoff version %d: %w", v.Version, err)
		}
		if i > 0 && (v.EffectiveDate <= versions[i-1].EffectiveDate || v.Version <= versions[i-1].Version) {
			return nil, fmt.Errorf("cutoff version %d of %v does not follow version %d of %v",
				v.Version, v.EffectiveDate, versions[i-1].Version, versions[i-1].EffectiveDate)
		}
		t.rules = append(t.rules, r)
	}
	return t, nil
}

// Versions are all versions, oldest first.
func (t *Timeline) Versions() []CutoffVersion { return slices.Clone(t.versions) }

// Change is all versions once an account is given a cutoff, as it should be and
// with the version that it has; where that changes it, the last has a new one. A
// change holds from the sales day after the open one, or later where that is
// wanted: what is captured already stays in its sales day. One that does not hold
// yet is replaced by the next, and its number is not used again. closed is the
// last closed day.
func (t *Timeline) Change(to Cutoff, wanted Date, now Instant, closed Date) ([]CutoffVersion, error) {
	versions := t.Versions()
	last := versions[len(versions)-1]
	open := max(t.SalesDate(now), closed+1)
	moved := wanted != NoDate && last.EffectiveDate > open && last.EffectiveDate != wanted
	if to == last.Cutoff && !moved {
		return versions, nil
	}
	if wanted != NoDate && wanted <= open {
		return nil, Invalid("", "cutoff: the effective date %s is too early: the sales day %s is open, so a change holds from %s at the earliest", wanted, open, open+1)
	}
	if last.EffectiveDate > open {
		versions = versions[:len(versions)-1]
	}
	to.Version++
	versions = append(versions, CutoffVersion{Cutoff: to, EffectiveDate: max(open+1, wanted)})
	_, err := NewTimeline(versions)
	return versions, err
}

// before are the versions that are in force before a day.
func (t *Timeline) before(d Date) []CutoffVersion {
	versions := slices.Clone(t.versions[:1])
	for _, v := range t.versions[1:] {
		if v.EffectiveDate < d {
			versions = append(versions, v)
		}
	}
	if versions[len(versions)-1].EffectiveDate >= d { // the first, which holds before its date too
		versions[len(versions)-1].EffectiveDate = d - 1
	}
	return versions
}

// at is the version that holds on a sales day.
func (t *Timeline) at(d Date) CutoffVersion { return t.versions[t.index(d)] }

func (t *Timeline) index(d Date) int {
	i := len(t.versions) - 1
	for i > 0 && t.versions[i].EffectiveDate > d {
		i--
	}
	return i
}

// End is the cutoff of sales day d: the first instant at or after its wall
// time. A wall time that occurs twice is the first; one that does not exist is
// the first instant after the gap.
func (t *Timeline) End(d Date) Instant { return t.rules[t.index(d)].end(d) }

// SalesDate is the day that an instant belongs to: the first whose cutoff is
// later. So the days tile time whatever the versions do: where a day's cutoff
// would come before that of the day before it, the day is empty.
func (t *Timeline) SalesDate(i Instant) Date {
	// Its date ended on every clock less than a day after it did in UTC, so
	// the day before yesterday is over.
	d := DateOf(i.Time()) - 1
	for i >= t.End(d) {
		d++
	}
	return d
}

// PayoutDate is the day on which sales day d is paid, by the version in force
// for d. It is never before d.
func (t *Timeline) PayoutDate(d Date) Date { return t.rules[t.index(d)].payout(d) }

// SalesDay is what a capture at an instant belongs to: its sales day, or the day
// after closed, the last closed one, where that is later. Nothing is added to
// a closed day.
func (t *Timeline) SalesDay(i Instant, closed Date) SalesDay {
	d := max(t.SalesDate(i), closed+1)
	return SalesDay{d, t.PayoutDate(d)}
}
